// SPDX-License-Identifier: Apache-2.0
// How transpose_tuned.cpp cuts its matrices into tiles.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/memory/transpose.h"

namespace duet {

class Tiles {
 public:
  static constexpr int64_t kRowBytes = 256;  // of a row of y in a tile; shorter runs of lines are written more slowly
  static constexpr int64_t kColumnBytes = 128;                     // of a row of x in a tile
  static constexpr int64_t kBytes = kRowBytes * kColumnBytes / 2;  // of a tile, for elements of 2 bytes or more

  Tiles(const Transpose& p, int64_t element_bytes)
      : p_(p),
        rows_(std::max<int64_t>(1, std::min(p.rows, kRowBytes / element_bytes))),
        columns_(kColumnBytes / element_bytes),
        down_(ceil_div(p.rows, rows_)),
        across_(ceil_div(p.cols, columns_)) {}

  int64_t count() const { return p_.batch * down_ * across_; }
  int64_t grain() const { return std::max<int64_t>(1, 16384 / (rows_ * columns_)); }  // a task moves 16 Ki elements

  struct Place {
    int64_t batch, row, rows, column, columns;
  };
  // Tiles that are neighbours in a row of x have consecutive numbers.
  Place place(int64_t tile) const {
    const int64_t column = tile % across_ * columns_, row = tile / across_ % down_ * rows_;
    return {tile / (across_ * down_), row, std::min(rows_, p_.rows - row), column,
            std::min(columns_, p_.cols - column)};
  }

 private:
  Transpose p_;
  int64_t rows_, columns_, down_, across_;
};

}  // namespace duet
