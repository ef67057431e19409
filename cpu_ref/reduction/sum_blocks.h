// SPDX-License-Identifier: Apache-2.0
// How sum_tuned.cpp cuts a tensor. Chosen so that no term passes through more additions than ops/summation.h allows, even
// with vectors of one lane.
#pragma once
#include <cstdint>

namespace duet {

inline constexpr int64_t kRowBlock = 1 << 14;     // elements of a row; 8 accumulators make 2048 additions a lane
inline constexpr int64_t kColumnRows = 256;       // rows of a block of columns
inline constexpr int64_t kColumnWidth = 1 << 11;  // columns of one: its sums are 8 KiB

}  // namespace duet
