// SPDX-License-Identifier: Apache-2.0
// cuDNN's maximum pooling, which stores no index: its backward pass finds the maximum again from x and y. It therefore
// implements neither the index nor the backward pass of this contract.
#include "kernels/pool/pooling_cudnn.h"
#include "ops/pool/max_pool2d.h"

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
}  // namespace
}  // namespace duet::cuda
