// SPDX-License-Identifier: Apache-2.0
// The inner loops of a filter's gradient from nchw images; conv2d_backward_filter_tuned.cpp says how they are used.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace duet::filter_gradient {

// Of the largest register tile: rows are (channel, r, s) of the filter, columns (2 vectors) output channels.
struct TileShape {
  int64_t rows, columns, lanes;
};
TileShape tile_shape();
constexpr int64_t kMaxRows = 16;  // on any instruction set

// sums (rows, columns) += x (rows, pixels) dy (pixels, columns), or = where `fresh`. The pixels are `images` images of
// `height` rows of `width`.
struct Tile {
  int64_t rows, columns;        // columns: tile_shape's, or lanes
  const float* line[kMaxRows];  // what each row meets at the first pixel
  int64_t images, height, width;
  int64_t image_step, row_step, pixel_step;  // of the lines
  const float* dy;
  float* sums;
  bool fresh;
};
void run_tile(const Tile& tile);

// dw[k * step + i] = sums[i * columns + k] for i < lines and k < count, rounded to dtype.
void store_filters(const float* sums, int64_t columns, int64_t lines, int64_t count, int64_t step, DType dtype,
                   void* dw);

}  // namespace duet::filter_gradient
