// SPDX-License-Identifier: Apache-2.0
// How many bytes the matrices of a block of images take (im2col, Winograd), which one launch writes and the next one
// reads: enough work for every multiprocessor, and at most a third of the second-level cache.
#pragma once
#include <algorithm>

#include "simt/launch.h"

namespace duet::DUET_DEVICE {

inline int64_t block_bytes(const GpuContext& gpu) {
  constexpr int64_t kForMultiprocessor = int64_t{1} << 19;
  return std::min(kForMultiprocessor * gpu.multiprocessors(), gpu.l2_bytes() / 3);
}

}  // namespace duet::DUET_DEVICE
