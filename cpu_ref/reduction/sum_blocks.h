// SPDX-License-Identifier: Apache-2.0
// How sum_tuned.cpp cuts a tensor into blocks. Even with vectors of one lane, no term passes through more additions
// than ops/summation.h allows.
#pragma once
#include <cstdint>

namespace duet {

inline constexpr int64_t kRowBlock = 1 << 14;     // elements of a row: 8 accumulators take 2048 additions each
inline constexpr int64_t kColumnRows = 256;       // rows of a block of columns
inline constexpr int64_t kColumnWidth = 1 << 11;  // columns of a block: its sums take 8 KiB

}  // namespace duet
