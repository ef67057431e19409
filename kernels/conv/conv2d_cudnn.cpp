// SPDX-License-Identifier: Apache-2.0
// cuDNN's convolution. Winograd and FFT are excluded: their errors exceed the contract's bound, and they are not exact
// on integers.
//   bf16 and f16 whose groups have multiples of 8 channels: a graph. The API before graphs takes several times as long
//   for 1x1 filters on Hopper (reports/results/h200.md).
//   All others, and where no engine takes the graph: the API before graphs; the algorithm is chosen when the plan is
//   made.
#include "kernels/conv/conv2d_cudnn.h"

#include "kernels/conv/convolution_cudnn.h"

namespace duet::cuda {

std::string conv2d_graph_unsupported_reason(const Conv2d& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16) return "other than bf16 and f16";
  if (p.group_c() % 8 != 0 || p.group_k() % 8 != 0) return "groups that have no multiple of 8 channels";
  return convolution::unsupported(p);
}

CudnnGraph conv2d_graph(const Conv2d& p) {
  return convolution::graph_of(p, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, convolution::kForward,
                               convolution::x_dims(p), convolution::filter_dims(p), convolution::y_dims(p));
}

namespace {

const char* name_of(cudnnConvolutionFwdAlgo_t algo) {
  switch (algo) {
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM:
      return "implicit_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM:
      return "implicit_precomp_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_GEMM:
      return "gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_DIRECT:
      return "direct";
    default:
      return nullptr;  // excluded
  }
}

Plan conv2d_cudnn(const Conv2d& p, GpuContext& gpu) {
  using Performance = cudnnConvolutionFwdAlgoPerf_t;
  if (conv2d_graph_unsupported_reason(p).empty())
    if (Plan plan = plan_of(conv2d_graph(p), gpu, {Conv2d::x, Conv2d::filter, Conv2d::y})) return plan;
  if (std::string reason = convolution::unsupported(p); !reason.empty()) return Unsupported{std::move(reason)};
  const convolution::Calls calls{
      [&](const convolution::Descriptors& d, const convolution::Scratch& s, int max_count, int* count,
          Performance* tried) {
        return cudnnFindConvolutionForwardAlgorithmEx(
            gpu.cudnn(), d.x.get(), s.x.data(), d.filter.get(), s.filter.data(), d.convolution.get(), d.y.get(),
            s.y.data(), max_count, count, tried, s.workspace.data(), static_cast<size_t>(s.workspace.bytes()));
      },
      [&](const convolution::Descriptors& d, cudnnConvolutionFwdAlgo_t algo, size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(gpu.cudnn(), d.x.get(), d.filter.get(), d.convolution.get(),
                                                       d.y.get(), algo, bytes);
      },
      [](const Performance& t) { return name_of(t.algo) != nullptr; }};
  auto chosen = convolution::choose<Performance, CUDNN_CONVOLUTION_FWD_ALGO_COUNT>(
      p, gpu, calls, "cuDNN has no algorithm of this precision within 256 MiB");
  if (!chosen.unsupported_reason.empty()) return Unsupported{std::move(chosen.unsupported_reason)};
  const char* name = name_of(chosen.algorithm);
  WorkspaceLayout workspace = chosen.workspace;
  return Plan([handle = gpu.cudnn(), chosen = std::move(chosen)](Args t) {
           const auto& d = chosen.d;
           const float one = 1, zero = 0;
           DUET_CUDNN(cudnnConvolutionForward(handle, &one, d.x.get(), cudnn_data(t[Conv2d::x]), d.filter.get(),
                                              cudnn_data(t[Conv2d::filter]), d.convolution.get(), chosen.algorithm,
                                              t.workspace(chosen.piece), chosen.workspace_bytes(), &zero, d.y.get(),
                                              cudnn_data(t[Conv2d::y])));
         })
      .with(name, std::move(workspace));
}
DUET_REGISTER(conv2d_cudnn);
}  // namespace
}  // namespace duet::cuda
