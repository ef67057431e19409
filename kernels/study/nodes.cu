// SPDX-License-Identifier: Apache-2.0
// The nodes of study/launch for launch_graph.cpp.
#include "kernels/study/launch_kernel.cuh"

namespace duet::DUET_DEVICE {

void enqueue_nodes(cudaStream_t stream, const float* x, float* y, int64_t nodes) { launch_nodes(stream, x, y, nodes); }

}  // namespace duet::DUET_DEVICE
