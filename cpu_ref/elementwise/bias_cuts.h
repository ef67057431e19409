// SPDX-License-Identifier: Apache-2.0
// How bias_tuned.cpp cuts a tensor into blocks: the same way on every instruction set and for any number of threads, so
// that results do not depend on either. Even with vectors of one lane, no term passes through more additions than
// ops/summation.h allows.
#pragma once
#include <cstdint>

namespace duet {

inline constexpr int64_t kMinLongPlane = 32;    // elements from which a plane has a loop of its own
inline constexpr int64_t kMinPattern = 2048;    // elements
inline constexpr int64_t kMinWideRow = 256;     // elements
inline constexpr int64_t kBlockColumns = 1024;  // of a block of columns: its sums take 4 KiB
inline constexpr int64_t kBlockRows = 256;      // of a block of columns
inline constexpr int64_t kPlanePart = 16384;    // elements of a plane that share one partial sum
inline constexpr int64_t kInL1 = 4096;          // elements that are first summed and then masked, from L1

// Where the partial sums of the backward pass lie: those of channel k at partial[group * stride + k * step + j], j <
// step.
struct Partials {
  int64_t groups, stride, step;
};

}  // namespace duet
