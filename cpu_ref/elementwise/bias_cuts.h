// SPDX-License-Identifier: Apache-2.0
// How bias_tuned.cpp cuts a tensor, alike on every instruction set. No term passes through more additions than
// ops/summation.h allows, even with vectors of one lane.
#pragma once
#include <cstdint>

namespace duet {

inline constexpr int64_t kLongPlane = 32;     // elements from which a plane is worth a loop of its own
inline constexpr int64_t kPattern = 2048;     // least elements of a pattern
inline constexpr int64_t kWide = 256;         // least elements of a wide row
inline constexpr int64_t kStrip = 1024;       // columns of a block: its sums are 4 KiB
inline constexpr int64_t kBlockRows = 256;    // rows of one
inline constexpr int64_t kPlanePart = 16384;  // elements of a plane with a partial sum of their own
inline constexpr int64_t kInL1 = 4096;        // elements that are summed and then, from L1, masked

// The partial sums: channel k owns partial[group * stride + k * step + j], j < step.
struct Partials {
  int64_t groups, stride, step;
};

}  // namespace duet
