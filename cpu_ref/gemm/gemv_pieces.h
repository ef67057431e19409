// SPDX-License-Identifier: Apache-2.0
// How gemv_tuned.cpp cuts a matrix into pieces. They do not depend on the number of threads, so that results do not
// either.
#pragma once
#include <algorithm>

#include "core/dtype.h"
#include "ops/gemm/gemv.h"

namespace duet {

inline constexpr int64_t kGemvColumns = 1024;  // elements of y in a piece of a transposed matrix: 4 KiB of sums

// `down` runs of y times `parts` parts of the sums.
struct GemvPieces {
  int64_t down, parts, rows, terms;  // rows, terms: of a piece, but for the last ones

  explicit GemvPieces(const Gemv& p) {
    constexpr int64_t kElements = 1 << 15;  // of a piece: 128 KiB of f32, much more than the cost of a task
    constexpr int64_t kEnough = 64;         // pieces for all threads
    const int64_t n = std::max<int64_t>(1, p.n), m = std::max<int64_t>(1, p.m);
    rows = p.trans ? std::min(m, kGemvColumns) : ceil_div(std::min(m, std::max<int64_t>(4, kElements / n)), 4) * 4;
    down = ceil_div(p.m, rows);
    // Few runs of y: their sums are divided, into parts of at least a piece.
    const int64_t wanted = kEnough / std::max<int64_t>(1, down);
    terms = ceil_div(ceil_div(n, std::max<int64_t>(1, std::min(wanted, rows * n / kElements))), 64) * 64;
    parts = ceil_div(n, terms);
  }
};

// Elements [i0, i1) of y, terms [j0, j1) of their sums. to: (m), for the sums of the piece; null: they are whole, and
// go to y. ahead: of a transposed matrix, rows are prefetched.
struct GemvPiece {
  int64_t i0, i1, j0, j1;
  float* to;
  bool ahead;
};

}  // namespace duet
