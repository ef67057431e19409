// SPDX-License-Identifier: Apache-2.0
// cuDNN's activation. The tensor is one image of one channel and `n` pixels.
#include "kernels/elementwise/cudnn_activation.h"
#include "ops/elementwise/sigmoid.h"

namespace duet::cuda {
namespace {
Plan sigmoid_cudnn(const Sigmoid& p, GpuContext& gpu) {
  return activation_forward(p.n, p.dtype, CUDNN_ACTIVATION_SIGMOID, Sigmoid::x, Sigmoid::y, gpu);
}
DUET_REGISTER(sigmoid_cudnn);

Plan sigmoid_backward_cudnn(const SigmoidBackward& p, GpuContext& gpu) {
  using P = SigmoidBackward;
  return activation_backward(p.n, p.dtype, CUDNN_ACTIVATION_SIGMOID, P::y, P::dy, P::dx, gpu);
}
DUET_REGISTER(sigmoid_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
