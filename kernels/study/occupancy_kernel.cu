// SPDX-License-Identifier: Apache-2.0
// One element per thread, whose multiply-adds wait for each other: only other warps hide that. Each block asks for
// shared memory that it does not use, so that fewer blocks fit on a multiprocessor.
#include "kernels/study/resident.h"
#include "kernels/study/rounds.cuh"
#include "ops/study/occupancy.h"

namespace duet::DUET_DEVICE {
namespace {
Plan study_occupancy_kernel(const Occupancy& p, GpuContext& gpu) {
  if (p.shared < 0) return Unsupported{"a GPU has no chains: its rows are those with shared"};
  const int64_t bytes = p.shared << 10;
  if (bytes > gpu.shared_bytes()) return Unsupported{"more shared memory than a block can have"};
  return Plan([p, bytes, stream = gpu.stream()](Args t) {
           launch_rounds(stream, t[Occupancy::x].as<const float>(), t[Occupancy::y].as<float>(), p.n, p.rounds, bytes);
         })
      .with(resident_text(rounds_kernel, kRoundsBlock, bytes));
}
DUET_REGISTER(study_occupancy_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
