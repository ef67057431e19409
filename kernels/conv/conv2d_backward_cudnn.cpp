// cuDNN's classic convolution gradients. The algorithm is chosen when the plan is made, by running every one that fits the
// workspace limit. Winograd and FFT are left out, as for conv2d; so are algorithms that add by atomics in any order.
#include <algorithm>
#include <array>
#include <string>

#include "core/cuda/cudnn.h"
#include "core/error.h"
#include "ops/conv/conv2d_backward.h"

namespace duet::cuda {
namespace {
constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;

// IEEE f32 must be asked for: cuDNN's default allows TF32.
cudnnMathType_t math_of(const Conv2d& p) {
  return p.dtype == DType::f32 && p.math == Math::ieee ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
}
bool keeps_precision(const Conv2d& p, cudnnMathType_t math) {
  if (p.dtype != DType::f32) return true;
  return p.math == Math::ieee ? math == CUDNN_FMA_MATH : math != CUDNN_FMA_MATH;
}
const char* name_of(cudnnConvolutionBwdFilterAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ? "algo_1" : nullptr;
}
const char* name_of(cudnnConvolutionBwdDataAlgo_t algo) {
  return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 ? "algo_1" : nullptr;
}

std::string unsupported(const Conv2d& p) {
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return std::string("dtype ") + duet::name_of(p.dtype);
  if (p.n * p.c * p.h * p.w == 0 || p.k * p.r * p.s == 0 || p.ho() * p.wo() == 0) return "cuDNN takes no empty tensor";
  for (const int64_t d : {p.n, p.c, p.k, p.ho(), p.wo()})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return {};
}

struct Descriptors {
  CudnnTensor x, y;
  CudnnFilter filter;
  CudnnConvolution convolution;
  explicit Descriptors(const Conv2d& p)
      : Descriptors(p, p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW) {}
  Descriptors(const Conv2d& p, cudnnTensorFormat_t format)
      : x(p.dtype, {p.n, p.c, p.h, p.w}, format),
        y(p.dtype, {p.n, p.k, p.ho(), p.wo()}, format),
        filter(p.dtype, {p.k, p.group_c(), p.r, p.s}, format),
        convolution({p.pad_h, p.pad_w, p.stride_h, p.stride_w, p.dil_h, p.dil_w, p.groups}, math_of(p)) {}
};

// The fastest of what was tried (ascending by time) that serves; null: none.
template <class Tried>
const typename Tried::value_type* best_of(const Conv2d& p, const Tried& tried, int count) {
  const auto* last = tried.data() + count;
  const auto* best = std::find_if(tried.data(), last, [&](const auto& t) {
    return t.status == CUDNN_STATUS_SUCCESS && t.determinism == CUDNN_DETERMINISTIC && name_of(t.algo) &&
           keeps_precision(p, t.mathType);
  });
  return best == last ? nullptr : best;
}

// The search runs on scratch tensors; their content, NaN, does not change the time of these algorithms.
struct Scratch {
  Buffer x, filter, y, workspace;
  Scratch(const Conv2d& p, GpuContext& gpu) : workspace(gpu, kWorkspaceLimit) {
    const auto tensors = p.tensors();
    x = Buffer(gpu, tensors[0].bytes()), filter = Buffer(gpu, tensors[1].bytes()), y = Buffer(gpu, tensors[2].bytes());
  }
};

Plan conv2d_backward_filter_cudnn(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (std::string reason = unsupported(p); !reason.empty()) return Unsupported{std::move(reason)};
  Descriptors d(p);
  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 2 * CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT> tried{};
  int count = 0;
  {
    const Scratch s(p, gpu);
    const auto status = cudnnFindConvolutionBackwardFilterAlgorithmEx(
        gpu.cudnn(), d.x.get(), s.x.data(), d.y.get(), s.y.data(), d.convolution.get(), d.filter.get(), s.filter.data(),
        static_cast<int>(tried.size()), &count, tried.data(), s.workspace.data(), static_cast<size_t>(kWorkspaceLimit));
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return Unsupported{"cuDNN does not support this convolution"};
    DUET_CUDNN(status);
  }
  const auto* best = best_of(p, tried, count);
  if (!best) return Unsupported{"cuDNN has no deterministic algorithm of this precision within 256 MiB"};
  d.convolution.set_math(best->mathType);
  Buffer workspace;
  const auto bytes = static_cast<int64_t>(best->memory);
  if (bytes > 0) workspace = Buffer(gpu, bytes);
  return Plan([handle = gpu.cudnn(), algo = best->algo, d = std::move(d), workspace = std::move(workspace)](Args t) {
           const float one = 1, zero = 0;
           DUET_CUDNN(cudnnConvolutionBackwardFilter(
               handle, &one, d.x.get(), t[P::x].data, d.y.get(), t[P::dy].data, d.convolution.get(), algo,
               workspace.data(), static_cast<size_t>(workspace.bytes()), &zero, d.filter.get(), t[P::dw].data));
         })
      .with(name_of(best->algo), bytes);
}
DUET_REGISTER(conv2d_backward_filter_cudnn);

Plan conv2d_backward_data_cudnn(const Conv2dBackwardData& problem, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  if (std::string reason = unsupported(p); !reason.empty()) return Unsupported{std::move(reason)};
  Descriptors d(p);
  std::array<cudnnConvolutionBwdDataAlgoPerf_t, 2 * CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT> tried{};
  int count = 0;
  {
    const Scratch s(p, gpu);
    const auto status = cudnnFindConvolutionBackwardDataAlgorithmEx(
        gpu.cudnn(), d.filter.get(), s.filter.data(), d.y.get(), s.y.data(), d.convolution.get(), d.x.get(), s.x.data(),
        static_cast<int>(tried.size()), &count, tried.data(), s.workspace.data(), static_cast<size_t>(kWorkspaceLimit));
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return Unsupported{"cuDNN does not support this convolution"};
    DUET_CUDNN(status);
  }
  const auto* best = best_of(p, tried, count);
  if (!best) return Unsupported{"cuDNN has no deterministic algorithm of this precision within 256 MiB"};
  d.convolution.set_math(best->mathType);
  Buffer workspace;
  const auto bytes = static_cast<int64_t>(best->memory);
  if (bytes > 0) workspace = Buffer(gpu, bytes);
  return Plan([handle = gpu.cudnn(), algo = best->algo, d = std::move(d), workspace = std::move(workspace)](Args t) {
           const float one = 1, zero = 0;
           DUET_CUDNN(cudnnConvolutionBackwardData(
               handle, &one, d.filter.get(), t[P::filter].data, d.y.get(), t[P::dy].data, d.convolution.get(), algo,
               workspace.data(), static_cast<size_t>(workspace.bytes()), &zero, d.x.get(), t[P::dx].data));
         })
      .with(name_of(best->algo), bytes);
}
DUET_REGISTER(conv2d_backward_data_cudnn);
}  // namespace
}  // namespace duet::cuda
