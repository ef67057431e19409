// SPDX-License-Identifier: Apache-2.0
// The inner loops of the gradient of a filter from nchw images. conv2d_backward_filter_tuned.cpp calls them and says
// how the whole is divided.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace duet::filter_gradient {

// The largest register tile. Its rows are elements (channel, r, s) of the filter, its columns (2 vectors) output
// channels.
struct TileShape {
  int64_t rows, columns, lanes;
};
TileShape tile_shape();
constexpr int64_t kMaxRows = 16;  // of a tile, on any instruction set

// sums (rows, columns) += x (rows, pixels) dy (pixels, columns); with `fresh`, = instead of +=. The pixels are those of
// `images` images, each of `height` rows of `width` pixels.
struct Tile {
  int64_t rows, columns;        // columns: those of tile_shape(), or one vector
  const float* line[kMaxRows];  // the value of x that each row reads at the first pixel
  int64_t images, height, width;
  int64_t image_step, row_step, pixel_step;  // steps in the lines
  const float* dy;
  float* sums;
  bool fresh;
};
void run_tile(const Tile& tile);

// dw[k * step + i] = sums[i * columns + k] for i < lines and k < count, rounded to dtype.
void store_filters(const float* sums, int64_t columns, int64_t lines, int64_t count, int64_t step, DType dtype,
                   void* dw);

}  // namespace duet::filter_gradient
