// SPDX-License-Identifier: Apache-2.0
// The nodes are launched one by one.
#include "kernels/study/launch_kernel.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_launch_stream(const Launch& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    launch_nodes(stream, t[Launch::x].as<const float>(), t[Launch::y].as<float>(), p.nodes);
  };
}
DUET_REGISTER(study_launch_stream);
}  // namespace
}  // namespace duet::DUET_DEVICE
