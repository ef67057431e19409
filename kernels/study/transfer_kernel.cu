// SPDX-License-Identifier: Apache-2.0
// A kernel copies, through the link where x or y is memory of the host that is mapped or managed: 16 bytes per thread.
#include "kernels/vector.cuh"
#include "ops/study/transfer.h"

namespace duet::DUET_DEVICE {
namespace {
struct Same {
  __device__ float operator()(float x) const { return x; }
};

Plan study_transfer_kernel(const Transfer& p, GpuContext& gpu) {
  const bool managed = p.memory == Transfer::Memory::managed && p.direction == Transfer::Direction::h2d;
  if (p.memory != Transfer::Memory::mapped && !managed && p.direction != Transfer::Direction::d2d)
    return Unsupported{"a kernel copies mapped memory, managed memory to the device, and within the device"};
  return [p, stream = gpu.stream()](Args t) {
    launch_map(stream, Same{}, p.n, t[Transfer::y].as<float>(), static_cast<const float*>(t[Transfer::x].data));
  };
}
DUET_REGISTER(study_transfer_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
