// SPDX-License-Identifier: Apache-2.0
// How the backward passes of layernorm and rmsnorm cut rows into blocks, whose parts of the columns' gradients are
// added afterwards. By the number of rows alone, so that results do not depend on threads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu_ref/chunks.h"

namespace duet {

struct RowBlocks {
  static constexpr int64_t kWanted = 64, kMinHeight = 32, kMaxHeight = 1024;
  static constexpr int64_t kMaxRows = int64_t{1} << 20;
  static constexpr const char* kTooManyRows = "more than 2^20 rows";
  int64_t rows, height, count;

  explicit RowBlocks(int64_t rows)
      : rows(rows),
        height(std::clamp(ceil_div(rows, kWanted), kMinHeight, kMaxHeight)),
        count(ceil_div(rows, height)) {}
  int64_t begin(int64_t block) const { return block * height; }
  int64_t end(int64_t block) const { return std::min(rows, (block + 1) * height); }
};

}  // namespace duet
