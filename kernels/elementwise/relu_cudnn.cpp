// SPDX-License-Identifier: Apache-2.0
// cuDNN's activation. The tensor is one image of one channel and `n` pixels.
#include "core/cuda/cudnn.h"
#include "ops/elementwise/relu.h"

namespace duet::cuda {
namespace {
std::string unsupported_reason(int64_t n, DType dtype) {
  if (n == 0) return "cuDNN takes no empty tensor";
  if (n > INT32_MAX) return "a dimension over 2^31 - 1";
  return dtype == DType::f64 ? "dtype f64" : "";
}

Plan relu_cudnn(const Relu& p, GpuContext& gpu) {
  if (const std::string why = unsupported_reason(p.n, p.dtype); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), relu = CudnnActivation(CUDNN_ACTIVATION_RELU),
          shape = CudnnTensor(p.dtype, {1, 1, 1, p.n})](Args t) {
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnActivationForward(handle, relu.get(), &one, shape.get(), cudnn_data(t[Relu::x]), &zero, shape.get(),
                                      cudnn_data(t[Relu::y])));
  };
}
DUET_REGISTER(relu_cudnn);

Plan relu_backward_cudnn(const ReluBackward& p, GpuContext& gpu) {
  if (const std::string why = unsupported_reason(p.n, p.dtype); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), relu = CudnnActivation(CUDNN_ACTIVATION_RELU),
          shape = CudnnTensor(p.dtype, {1, 1, 1, p.n})](Args t) {
    const float one = 1, zero = 0;  // y > 0 exactly where x > 0, so x is passed as y too
    const void *x = cudnn_data(t[ReluBackward::x]), *dy = cudnn_data(t[ReluBackward::dy]);
    DUET_CUDNN(cudnnActivationBackward(handle, relu.get(), &one, shape.get(), x, shape.get(), dy, shape.get(), x, &zero,
                                       shape.get(), cudnn_data(t[ReluBackward::dx])));
  };
}
DUET_REGISTER(relu_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
