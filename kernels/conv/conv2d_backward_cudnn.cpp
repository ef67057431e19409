// SPDX-License-Identifier: Apache-2.0
// cuDNN's convolution gradients (the API before graphs). The algorithm is chosen when the plan is made. Winograd and
// FFT are excluded, as in conv2d_cudnn.cpp, and so are algorithms that add by atomics, whose order changes from run to
// run.
#include "kernels/conv/convolution_cudnn.h"
#include "ops/conv/conv2d_backward.h"

namespace duet::cuda {
namespace {
constexpr const char* kNone = "cuDNN has no deterministic algorithm of this precision within 256 MiB";

const char* name_of(cudnnConvolutionBwdFilterAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ? "algo_1" : nullptr;
}
const char* name_of(cudnnConvolutionBwdDataAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 ? "algo_1" : nullptr;
}

// The plan of convolution p. find and workspace_bytes: as convolution::Calls says; run: enqueues the chosen algorithm.
template <class Performance, int kAlgorithms, class Find, class WorkspaceBytes, class Run>
Plan plan_of(const Conv2d& p, GpuContext& gpu, Find find, WorkspaceBytes workspace_bytes, Run run) {
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
  return plan_of<cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT>(
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
  return plan_of<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT>(
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
