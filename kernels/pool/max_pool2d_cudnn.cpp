// SPDX-License-Identifier: Apache-2.0
// cuDNN's maximum pooling, which stores no index: its backward pass finds the maximum again from x and y. It therefore
// has the forms without an index, and the backward pass only where the forward pass is in the same problem.
#include "kernels/pool/pooling_cudnn.h"
#include "ops/pool/max_pool2d_training.h"

namespace duet::cuda {
namespace {
Plan max_pool2d_cudnn(const MaxPool2d& p, GpuContext& gpu) {
  if (p.indexed) return Unsupported{"cuDNN's pooling gives no index"};
  if (const std::string why = pooling_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return
      [handle = gpu.cudnn(), pooling = CudnnPooling(p, CUDNN_POOLING_MAX), x = pooling_x(p), y = pooling_y(p)](Args t) {
        const float one = 1, zero = 0;
        DUET_CUDNN(cudnnPoolingForward(handle, pooling.get(), &one, x.get(), cudnn_data(t[MaxPool2d::x]), &zero,
                                       y.get(), cudnn_data(t[MaxPool2d::y])));
      };
}
DUET_REGISTER(max_pool2d_cudnn);

Plan max_pool2d_training_cudnn(const MaxPool2dTraining& p, GpuContext& gpu) {
  if (const std::string why = pooling_unsupported_reason(p); !why.empty()) return Unsupported{why};
  if (!p.distinct())
    return Unsupported{"windows of over 256 pixels: equal elements, of which cuDNN takes one by a rule of its own"};
  return Plan([handle = gpu.cudnn(), pooling = CudnnPooling(p, CUDNN_POOLING_MAX), x_form = pooling_x(p),
               y_form = pooling_y(p)](Args t) {
           const float one = 1, zero = 0;
           const void *x = cudnn_data(t[MaxPool2dTraining::x]), *dy = cudnn_data(t[MaxPool2dTraining::dy]);
           void *y = cudnn_data(t[MaxPool2dTraining::y]), *dx = cudnn_data(t[MaxPool2dTraining::dx]);
           DUET_CUDNN(cudnnPoolingForward(handle, pooling.get(), &one, x_form.get(), x, &zero, y_form.get(), y));
           DUET_CUDNN(cudnnPoolingBackward(handle, pooling.get(), &one, y_form.get(), y, y_form.get(), dy, x_form.get(),
                                           x, &zero, x_form.get(), dx));
         })
      .varying(p.overlap() > 1);  // sums of several windows: cuDNN promises no order
}
DUET_REGISTER(max_pool2d_training_cudnn);
}  // namespace
}  // namespace duet::cuda
