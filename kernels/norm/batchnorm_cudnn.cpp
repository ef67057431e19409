// SPDX-License-Identifier: Apache-2.0
// cuDNN's spatial batch normalisation. It keeps gamma and beta in f32, so it implements the contract for f32 only; its
// fused activation and addition exist for halves in nhwc only.
#include "core/cuda/cudnn.h"
#include "ops/norm/batchnorm.h"

namespace duet::cuda {
namespace {
std::string unsupported_reason(const Channels& p) {
  if (p.dtype != DType::f32) return "dtype other than f32: cuDNN keeps gamma and beta in f32";
  if (p.act != NormAct::none || p.residual) return "cuDNN fuses nothing in f32";
  if (p.elements() == 0) return "cuDNN takes no empty tensor";
  for (const int64_t d : {p.n, p.c, p.h, p.w})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return "";
}
CudnnTensor images_of(const Channels& p) {
  return CudnnTensor(p.dtype, {p.n, p.c, p.h, p.w}, p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW);
}
CudnnTensor channels_of(const Channels& p) { return CudnnTensor(DType::f32, {1, p.c, 1, 1}); }
constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

Plan batchnorm_cudnn(const BatchNorm& p, GpuContext& gpu) {
  using P = BatchNorm;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  if (p.count() == 1) return Unsupported{"one element per channel has no unbiased variance"};
  if (p.eps < CUDNN_BN_MIN_EPSILON) return Unsupported{"eps below cuDNN's minimum"};
  return [p, handle = gpu.cudnn(), images = images_of(p), channels = channels_of(p)](Args t) {
    // Of activations cuDNN says that they may run in place, of batch normalisation it does not.
    require_apart(t[P::y], t[P::x], "y is x");
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnBatchNormalizationForwardTraining(
        handle, kMode, &one, &zero, images.get(), cudnn_data(t[P::x]), images.get(), cudnn_data(t[P::y]),
        channels.get(), cudnn_data(t[P::gamma]), cudnn_data(t[P::beta]), p.momentum, cudnn_data(t[P::running_mean]),
        cudnn_data(t[P::running_var]), p.eps, cudnn_data(t[P::mean]), cudnn_data(t[P::rstd])));
  };
}
DUET_REGISTER(batchnorm_cudnn);

Plan batchnorm_inference_cudnn(const BatchNormInference& p, GpuContext& gpu) {
  using P = BatchNormInference;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  if (p.eps < CUDNN_BN_MIN_EPSILON) return Unsupported{"eps below cuDNN's minimum"};
  return [p, handle = gpu.cudnn(), images = images_of(p), channels = channels_of(p)](Args t) {
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnBatchNormalizationForwardInference(handle, kMode, &one, &zero, images.get(), cudnn_data(t[P::x]),
                                                       images.get(), cudnn_data(t[P::y]), channels.get(),
                                                       cudnn_data(t[P::gamma]), cudnn_data(t[P::beta]),
                                                       cudnn_data(t[P::mean]), cudnn_data(t[P::var]), p.eps));
  };
}
DUET_REGISTER(batchnorm_inference_cudnn);

Plan batchnorm_backward_cudnn(const BatchNormBackward& p, GpuContext& gpu) {
  using P = BatchNormBackward;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), images = images_of(p), channels = channels_of(p)](Args t) {
    // As above: sums over x and dy come first, and how often the images are read after them is not documented.
    require_apart(t[P::dx], t[P::x], "dx is x");
    require_apart(t[P::dx], t[P::dy], "dx is dy");
    const float one = 1, zero = 0;
    constexpr double kUnused = 1e-5;  // eps: not used, since mean and rstd are passed
    DUET_CUDNN(cudnnBatchNormalizationBackward(
        handle, kMode, &one, &zero, &one, &zero, images.get(), cudnn_data(t[P::x]), images.get(), cudnn_data(t[P::dy]),
        images.get(), cudnn_data(t[P::dx]), channels.get(), cudnn_data(t[P::gamma]), cudnn_data(t[P::dgamma]),
        cudnn_data(t[P::dbeta]), kUnused, cudnn_data(t[P::mean]), cudnn_data(t[P::rstd])));
  };
}
DUET_REGISTER(batchnorm_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
