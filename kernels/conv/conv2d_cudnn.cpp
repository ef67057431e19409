// cuDNN's classic convolution. The algorithm is chosen when the plan is made, by running every one that fits the workspace
// limit. Winograd and FFT are left out: their sums lie outside the contract's bound and are not exact on integers.
#include <algorithm>
#include <array>

#include "core/cuda/cudnn.h"
#include "core/error.h"
#include "ops/conv/conv2d.h"

namespace duet::cuda {
namespace {
constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;

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
      return nullptr;  // not used here
  }
}

// IEEE f32 must be asked for: cuDNN's default allows TF32.
cudnnMathType_t math_of(const Conv2d& p) {
  return p.dtype == DType::f32 && p.math == Math::ieee ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
}
bool keeps_precision(const Conv2d& p, cudnnMathType_t math) {
  if (p.dtype != DType::f32) return true;
  return p.math == Math::ieee ? math == CUDNN_FMA_MATH : math != CUDNN_FMA_MATH;
}

Plan conv2d_cudnn(const Conv2d& p, GpuContext& gpu) {
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return Unsupported{std::string("dtype ") + duet::name_of(p.dtype)};
  if (p.n * p.c * p.h * p.w == 0 || p.k * p.r * p.s == 0 || p.ho() * p.wo() == 0)
    return Unsupported{"cuDNN takes no empty tensor"};
  for (const int64_t d : {p.n, p.c, p.k, p.ho(), p.wo()})
    if (d > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};

  const auto format = p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  CudnnTensor x(p.dtype, {p.n, p.c, p.h, p.w}, format), y(p.dtype, {p.n, p.k, p.ho(), p.wo()}, format);
  CudnnFilter filter(p.dtype, {p.k, p.group_c(), p.r, p.s}, format);
  CudnnConvolution convolution({p.pad_h, p.pad_w, p.stride_h, p.stride_w, p.dil_h, p.dil_w, p.groups}, math_of(p));

  // The search runs on scratch tensors; their content, NaN, does not change the time of these algorithms.
  std::array<cudnnConvolutionFwdAlgoPerf_t, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT> tried{};
  int count = 0;
  {
    const auto tensors = p.tensors();
    const Buffer at_x(gpu, tensors[0].bytes()), at_w(gpu, tensors[1].bytes()), at_y(gpu, tensors[2].bytes());
    const Buffer scratch(gpu, kWorkspaceLimit);
    const auto status = cudnnFindConvolutionForwardAlgorithmEx(
        gpu.cudnn(), x.get(), at_x.data(), filter.get(), at_w.data(), convolution.get(), y.get(), at_y.data(),
        static_cast<int>(tried.size()), &count, tried.data(), scratch.data(), static_cast<size_t>(kWorkspaceLimit));
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return Unsupported{"cuDNN does not support this convolution"};
    DUET_CUDNN(status);
  }
  const auto last = tried.begin() + count;  // ascending by time
  const auto best = std::find_if(tried.begin(), last, [&](const cudnnConvolutionFwdAlgoPerf_t& t) {
    return t.status == CUDNN_STATUS_SUCCESS && name_of(t.algo) && keeps_precision(p, t.mathType);
  });
  if (best == last) return Unsupported{"cuDNN has no algorithm of this precision within 256 MiB"};
  convolution.set_math(best->mathType);

  Buffer workspace;
  if (best->memory > 0) workspace = Buffer(gpu, static_cast<int64_t>(best->memory));
  const auto bytes = static_cast<int64_t>(best->memory);
  return Plan([handle = gpu.cudnn(), algo = best->algo, x = std::move(x), y = std::move(y), filter = std::move(filter),
               convolution = std::move(convolution), workspace = std::move(workspace)](Args t) {
           const float one = 1, zero = 0;
           DUET_CUDNN(cudnnConvolutionForward(
               handle, &one, x.get(), t[Conv2d::x].data, filter.get(), t[Conv2d::filter].data, convolution.get(), algo,
               workspace.data(), static_cast<size_t>(workspace.bytes()), &zero, y.get(), t[Conv2d::y].data));
         })
      .with(name_of(best->algo), bytes);
}
DUET_REGISTER(conv2d_cudnn);
}  // namespace
}  // namespace duet::cuda
