// SPDX-License-Identifier: Apache-2.0
// cuDNN in accurate mode, which subtracts the maximum. A row is an image of `cols` channels and one pixel.
#include "core/cuda/cudnn.h"
#include "ops/norm/softmax.h"

namespace duet::cuda {
namespace {
Plan softmax_cudnn(const Softmax& p, GpuContext& gpu) {
  if (p.rows * p.cols == 0) return Unsupported{"cuDNN takes no empty tensor"};
  if (p.rows > INT32_MAX || p.cols > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (p.dtype != DType::f32)
    return Unsupported{"bf16 and f16: off by more than their rounding (seen of bf16 on an H100 and an H200)"};
  return [handle = gpu.cudnn(), shape = CudnnTensor(p.dtype, {p.rows, p.cols, 1, 1})](Args t) {
    const float one = 1, zero = 0;  // y = one * softmax(x) + zero * y
    DUET_CUDNN(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, shape.get(),
                                   cudnn_data(t[Softmax::x]), &zero, shape.get(), cudnn_data(t[Softmax::y])));
  };
}
DUET_REGISTER(softmax_cudnn);  // cuda.cudnn

Plan softmax_backward_cudnn(const SoftmaxBackward& p, GpuContext& gpu) {
  if (p.rows * p.cols == 0) return Unsupported{"cuDNN takes no empty tensor"};
  if (p.rows > INT32_MAX || p.cols > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  return [handle = gpu.cudnn(), shape = CudnnTensor(p.dtype, {p.rows, p.cols, 1, 1})](Args t) {
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, shape.get(),
                                    cudnn_data(t[SoftmaxBackward::y]), shape.get(), cudnn_data(t[SoftmaxBackward::dy]),
                                    &zero, shape.get(), cudnn_data(t[SoftmaxBackward::dx])));
  };
}
DUET_REGISTER(softmax_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
