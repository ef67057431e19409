// SPDX-License-Identifier: Apache-2.0
// The kernel of rounds.cuh for pipeline_streams.cpp.
#include "kernels/study/rounds.cuh"

namespace duet::DUET_DEVICE {

void add_rounds(cudaStream_t stream, const float* x, float* y, int64_t n, int64_t rounds) {
  launch_rounds(stream, x, y, n, rounds);
}

}  // namespace duet::DUET_DEVICE
