// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv:1509.09308) for 3x3 filters with
// stride 1, in nchw. conv2d_winograd.cpp and conv2d_backward_filter_winograd.cpp multiply what they give.
//
// A tile of 2x2 results needs 4x4 pixels. Pixels and filters are transformed to 16 values each, whose products, summed
// over channels, are transformed back: 16 products for 4 results instead of 36. The transforms add, subtract and halve,
// so small whole numbers stay exact. F(4x4, 3x3) would save 2.25 times more, but divides by 6 and 24. The contract's
// bound allows for the errors of transforms (kTransformed of ops/summation.h). All transformed values are f32.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "ops/conv/conv2d.h"

namespace duet::winograd {

inline constexpr int kPoints = 16;  // values of a transformed tile

const char* unsupported_reason(const Conv2d& p);  // null: none

// The tiles of a problem: a row of tiles has `across` tiles, an image has `down` rows of them, all images `rows`. Block
// b has the rows [row(b), row(b + 1)), at most block_rows.
struct Tiles {
  // A block has about block_floats values of V and M (or W), but at least about min_tiles tiles. With more than one
  // part, blocks are as many as parts or a multiple of that, or if they are fewer a power of two, where rows allow it:
  // so threads that take parts have equally many.
  Tiles(const Conv2d& p, int64_t block_floats, int64_t min_tiles, int64_t parts = 1)
      : across((p.wo() + 1) / 2), down((p.ho() + 1) / 2), rows(p.n * down), width(2 * across + 2) {
    const int64_t tiles = std::max(min_tiles, block_floats / (kPoints * std::max<int64_t>(1, p.c + p.k)));
    blocks = ceil_div(rows, std::max<int64_t>(1, tiles / std::max<int64_t>(1, across)));
    blocks = blocks < parts ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(blocks)))
                            : (blocks + parts / 2) / parts * parts;
    blocks = std::min(blocks, rows);
    block_rows = blocks == 0 ? 0 : ceil_div(rows, blocks);
    // Products are of block_rows: so many blocks only if that multiplies at most an eighth more.
    if (8 * blocks * block_rows > 9 * rows) blocks = ceil_div(rows, block_rows);
  }
  int64_t row(int64_t block) const { return rows * block / blocks; }
  int64_t block_tiles() const { return block_rows * across; }
  // Floats of scratch memory for one thread: 4 rows of pixels, whole vectors of them, and the same after the first
  // half of the transform.
  int64_t scratch_floats() const { return 8 * padded(); }
  int64_t padded() const { return ceil_div(width, kLanes) * kLanes + 2 * kLanes; }
  static constexpr int64_t kLanes = 16;  // of the widest vector

  int64_t across, down, rows, width;  // width: pixels under a row of tiles
  int64_t blocks, block_rows;
};

// V of the channels [first, last) of a block, of rows of tiles [first_row, last_row) of all images: v[e] (c, tiles) =
// B' d B. x: the images. Rows of tiles that a block lacks are 0. scratch: tiles.scratch_floats(), in all of these.
void transform_pixels(const Conv2d& p, const Tiles& tiles, const void* x, int64_t first_row, int64_t last_row,
                      int64_t first, int64_t last, float* scratch, float* v);
// U of the output channels [first, last): u[e] (k, c) = G g G'. filter: (k, c, 3, 3), or with `turned` (c, k, 3, 3), of
// which each is turned round.
void transform_filters(const Conv2d& p, bool turned, const void* filter, float* u, int64_t first, int64_t last);
// y of the output channels [first, last) = act(A' m A + bias), from m[e] (k, tiles). bias: (k), or null.
void transform_back(const Conv2d& p, const Tiles& tiles, const float* m, int64_t first_row, int64_t last_row,
                    int64_t first, int64_t last, const void* bias, bool relu, float* scratch, void* y);

// W of the output channels [first, last) of a block: w[e] (k, tiles) = A dy A', the transpose of transform_back. dy:
// gradients of the results.
void transform_gradients(const Conv2d& p, const Tiles& tiles, const void* dy, int64_t first_row, int64_t last_row,
                         int64_t first, int64_t last, float* scratch, float* w);
// dw of the output channels [first, last) = G' S G, the transpose of transform_filters. S[e] (k, c) is the sum of
// `parts` such tensors, which lie one after another in s.
void transform_filters_back(const Conv2d& p, const float* s, int64_t parts, void* dw, int64_t first, int64_t last);

}  // namespace duet::winograd
