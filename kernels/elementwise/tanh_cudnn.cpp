// SPDX-License-Identifier: Apache-2.0
// cuDNN's activation. The tensor is one image of one channel and `n` pixels.
#include "kernels/elementwise/cudnn_activation.h"
#include "ops/elementwise/tanh.h"

namespace duet::cuda {
namespace {
Plan tanh_cudnn(const Tanh& p, GpuContext& gpu) {
  return activation_forward(p.n, p.dtype, CUDNN_ACTIVATION_TANH, Tanh::x, Tanh::y, gpu);
}
DUET_REGISTER(tanh_cudnn);

Plan tanh_backward_cudnn(const TanhBackward& p, GpuContext& gpu) {
  using P = TanhBackward;
  return activation_backward(p.n, p.dtype, CUDNN_ACTIVATION_TANH, P::y, P::dy, P::dx, gpu);
}
DUET_REGISTER(tanh_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
