// SPDX-License-Identifier: Apache-2.0
// cuDNN's average pooling.
#include "kernels/pool/pooling_cudnn.h"
#include "ops/pool/avg_pool2d.h"

namespace duet::cuda {
namespace {
cudnnPoolingMode_t mode_of(bool count_pad) {
  return count_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

Plan avg_pool2d_cudnn(const AvgPool2d& p, GpuContext& gpu) {
  if (const std::string why = pooling_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), pooling = CudnnPooling(p, mode_of(p.count_pad)), x = pooling_x(p),
          y = pooling_y(p)](Args t) {
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnPoolingForward(handle, pooling.get(), &one, x.get(), cudnn_data(t[AvgPool2d::x]), &zero, y.get(),
                                   cudnn_data(t[AvgPool2d::y])));
  };
}
DUET_REGISTER(avg_pool2d_cudnn);

Plan avg_pool2d_backward_cudnn(const AvgPool2dBackward& p, GpuContext& gpu) {
  if (const std::string why = pooling_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), pooling = CudnnPooling(p, mode_of(p.count_pad)), x = pooling_x(p),
          y = pooling_y(p)](Args t) {
    const float one = 1, zero = 0;  // the gradient of a mean does not depend on x and y: dx and dy are passed instead
    const void* dy = cudnn_data(t[AvgPool2dBackward::dy]);
    void* dx = cudnn_data(t[AvgPool2dBackward::dx]);
    DUET_CUDNN(
        cudnnPoolingBackward(handle, pooling.get(), &one, y.get(), dy, y.get(), dy, x.get(), dx, &zero, x.get(), dx));
  };
}
DUET_REGISTER(avg_pool2d_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
