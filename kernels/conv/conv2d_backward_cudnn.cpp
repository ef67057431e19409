// SPDX-License-Identifier: Apache-2.0
// cuDNN's convolution gradients. Winograd and FFT are excluded, as in conv2d_cudnn.cpp, and so is what adds by atomics,
// whose order changes from run to run.
//   f32: the API before graphs; the algorithm is chosen when the plan is made.
//   bf16 and f16: a graph. The algorithms of the API before graphs may round partial sums to these types (seen on an
//   H100 with both gradients) and do not say so. Engines of a graph have a note for it; and those without tensor cores,
//   which may be the code of these algorithms, are the last to be tried.
#include "kernels/conv/conv2d_backward_cudnn.h"

#include "kernels/conv/convolution_cudnn.h"

namespace duet::cuda {

std::string conv2d_backward_graph_unsupported_reason(const Conv2d& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16) return "other than bf16 and f16";
  return convolution::unsupported(p);
}

CudnnGraph conv2d_backward_filter_graph(const Conv2dBackwardFilter& p) {
  return convolution::graph_of(
      p.conv, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW},
      convolution::x_dims(p.conv), convolution::y_dims(p.conv), convolution::filter_dims(p.conv));
}

CudnnGraph conv2d_backward_data_graph(const Conv2dBackwardData& p) {
  return convolution::graph_of(
      p.conv, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX},
      convolution::filter_dims(p.conv), convolution::y_dims(p.conv), convolution::x_dims(p.conv));
}

namespace {
constexpr const char* kNone = "cuDNN has no deterministic algorithm of this precision within 256 MiB";

const char* name_of(cudnnConvolutionBwdFilterAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ? "algo_1" : nullptr;
}
const char* name_of(cudnnConvolutionBwdDataAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 ? "algo_1" : nullptr;
}

// The plan of convolution p by the API before graphs. find and workspace_bytes: as convolution::Calls says; run:
// enqueues the chosen algorithm.
template <class Performance, int kAlgorithms, class Find, class WorkspaceBytes, class Run>
Plan searched_plan(const Conv2d& p, GpuContext& gpu, Find find, WorkspaceBytes workspace_bytes, Run run) {
  if (std::string reason = convolution::unsupported(p); !reason.empty()) return Unsupported{std::move(reason)};
  const convolution::Calls calls{find, workspace_bytes, [](const Performance& t) {
                                   return t.determinism == CUDNN_DETERMINISTIC && name_of(t.algo) != nullptr;
                                 }};
  auto chosen = convolution::choose<Performance, kAlgorithms>(p, gpu, calls, kNone);
  if (!chosen.unsupported_reason.empty()) return Unsupported{std::move(chosen.unsupported_reason)};
  const char* name = name_of(chosen.algorithm);
  WorkspaceLayout workspace = chosen.workspace;
  return Plan([run, handle = gpu.cudnn(), chosen = std::move(chosen)](Args t) { run(handle, chosen, t); })
      .with(name, std::move(workspace));
}

Plan conv2d_backward_filter_cudnn(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (size_of(p.dtype) == 2 && (p.group_c() % 8 != 0 || p.group_k() % 8 != 0))
    return Unsupported{
        "bf16 and f16 whose groups have no multiple of 8 channels: partial sums are rounded to them (seen on an H100)"};
  if (conv2d_backward_graph_unsupported_reason(p).empty())
    return plan_of(conv2d_backward_filter_graph(problem), gpu, {P::x, P::dy, P::dw});
  return searched_plan<cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT>(
      problem.conv, gpu,
      [&](const auto& d, const auto& s, int max_count, int* count, auto* tried) {
        return cudnnFindConvolutionBackwardFilterAlgorithmEx(
            gpu.cudnn(), d.x.get(), s.x.data(), d.y.get(), s.y.data(), d.convolution.get(), d.filter.get(),
            s.filter.data(), max_count, count, tried, s.workspace.data(), static_cast<size_t>(s.workspace.bytes()));
      },
      [&](const auto& d, cudnnConvolutionBwdFilterAlgo_t algo, size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(gpu.cudnn(), d.x.get(), d.y.get(), d.convolution.get(),
                                                              d.filter.get(), algo, bytes);
      },
      [](cudnnHandle_t handle, const auto& chosen, Args t) {
        const auto& d = chosen.d;
        const float one = 1, zero = 0;
        DUET_CUDNN(cudnnConvolutionBackwardFilter(handle, &one, d.x.get(), cudnn_data(t[P::x]), d.y.get(),
                                                  cudnn_data(t[P::dy]), d.convolution.get(), chosen.algorithm,
                                                  t.workspace(chosen.piece), chosen.workspace_bytes(), &zero,
                                                  d.filter.get(), cudnn_data(t[P::dw])));
      });
}
DUET_REGISTER(conv2d_backward_filter_cudnn);

Plan conv2d_backward_data_cudnn(const Conv2dBackwardData& problem, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  if (conv2d_backward_graph_unsupported_reason(problem.conv).empty())
    return plan_of(conv2d_backward_data_graph(problem), gpu, {P::filter, P::dy, P::dx});
  return searched_plan<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT>(
      problem.conv, gpu,
      [&](const auto& d, const auto& s, int max_count, int* count, auto* tried) {
        return cudnnFindConvolutionBackwardDataAlgorithmEx(
            gpu.cudnn(), d.filter.get(), s.filter.data(), d.y.get(), s.y.data(), d.convolution.get(), d.x.get(),
            s.x.data(), max_count, count, tried, s.workspace.data(), static_cast<size_t>(s.workspace.bytes()));
      },
      [&](const auto& d, cudnnConvolutionBwdDataAlgo_t algo, size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(gpu.cudnn(), d.filter.get(), d.y.get(), d.convolution.get(),
                                                            d.x.get(), algo, bytes);
      },
      [](cudnnHandle_t handle, const auto& chosen, Args t) {
        const auto& d = chosen.d;
        const float one = 1, zero = 0;
        DUET_CUDNN(cudnnConvolutionBackwardData(handle, &one, d.filter.get(), cudnn_data(t[P::filter]), d.y.get(),
                                                cudnn_data(t[P::dy]), d.convolution.get(), chosen.algorithm,
                                                t.workspace(chosen.piece), chosen.workspace_bytes(), &zero, d.x.get(),
                                                cudnn_data(t[P::dx])));
      });
}
DUET_REGISTER(conv2d_backward_data_cudnn);
}  // namespace
}  // namespace duet::cuda
