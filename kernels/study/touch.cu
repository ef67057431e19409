// SPDX-License-Identifier: Apache-2.0
// The kernel of touch.cuh for the implementations of study/allocation that obtain memory from the runtime.
#include "kernels/study/touch.cuh"

namespace duet::DUET_DEVICE {

void touch_pages(cudaStream_t stream, const float* x, void* memory, float* y, int64_t pages) {
  launch_touch(stream, x, static_cast<float*>(memory), y, pages);
}

}  // namespace duet::DUET_DEVICE
