// SPDX-License-Identifier: Apache-2.0
// What max_pool2d and avg_pool2d share: dimensions, windows, shapes. Tensors are dense; by layout:
//   nchw: x, dx (n, c, h, w); y, dy, index (n, c, ho, wo)
//   nhwc: x, dx (n, h, w, c); y, dy, index (n, ho, wo, c)
// The window of output (i, j) holds the pixels (i stride_h - pad_h + u dil_h, j stride_w - pad_w + v dil_w) of x with u
// < r and v < s, as far as they lie in x. ho = (h + 2 pad_h - dil_h (r - 1) - 1) / stride_h + 1 where a window fits,
// else 0; wo likewise. Implementations treat a plane of nchw as an image of one channel: images() and depth() serve
// both layouts.
#pragma once
#include "ops/conv/conv2d.h"  // Layout

namespace duet {

struct Pool2d {
  int64_t n = 0, c = 0, h = 0, w = 0, r = 0, s = 0;
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1;
  Layout layout = Layout::nchw;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of the images");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height of x");
    field("w", w, "width of x");
    field("r", r, "height of a window");
    field("s", s, "width of a window");
    field.option("pad_h", pad_h, "rows that windows reach beyond x, above and below");
    field.option("pad_w", pad_w, "columns that windows reach beyond x, left and right");
    field.option("stride_h", stride_h, "rows of x from one window to the next");
    field.option("stride_w", stride_w, "columns of x from one window to the next");
    field.option("dil_h", dil_h, "rows of x from one tap to the next");
    field.option("dil_w", dil_w, "columns of x from one tap to the next");
    field.option("layout", layout, "order of the axes in memory");
  }
  std::string invalid() const {
    if (stride_h < 1 || stride_w < 1) return "stride_h, stride_w: 1 or more";
    if (dil_h < 1 || dil_w < 1) return "dil_h, dil_w: 1 or more";
    if (r < 1 || s < 1) return "r, s: 1 or more";
    for (const int64_t v : {h, w, r, s, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w})
      if (v < 0 || v > kMaxExtent) return std::to_string(v) + ": extents, pads, strides and dilations lie in 0 to 2^24";
    if (pad_h > dil_h * (r - 1) || pad_w > dil_w * (s - 1)) return "pad_h, pad_w: less than a window";
    if (h * w > INT32_MAX) return "h w: below 2^31, an index is an i32";
    return "";
  }

  int64_t ho() const { return extent(h, pad_h, dil_h, r, stride_h); }
  int64_t wo() const { return extent(w, pad_w, dil_w, s, stride_w); }
  int64_t images() const { return layout == Layout::nchw ? n * c : n; }
  int64_t depth() const { return layout == Layout::nchw ? 1 : c; }
  int64_t x_elements() const { return n * c * h * w; }
  int64_t y_elements() const { return n * c * ho() * wo(); }
  Shape x_shape() const { return layout == Layout::nchw ? Shape{n, c, h, w} : Shape{n, h, w, c}; }
  Shape y_shape() const { return layout == Layout::nchw ? Shape{n, c, ho(), wo()} : Shape{n, ho(), wo(), c}; }
  // The most windows that a pixel can lie in: each tap gives one window at most, and windows are a stride apart.
  int64_t overlap() const {
    return std::min(r, ceil_div(dil_h * (r - 1) + 1, stride_h)) * std::min(s, ceil_div(dil_w * (s - 1) + 1, stride_w));
  }

  // Calls body(pixel of x's plane) for the window of output (i, j), from the first pixel to the last.
  void in_window(int64_t i, int64_t j, const auto& body) const {
    for (int64_t u = 0; u < r; ++u)
      for (int64_t v = 0; v < s; ++v) {
        const int64_t row = i * stride_h - pad_h + u * dil_h, column = j * stride_w - pad_w + v * dil_w;
        if (row >= 0 && row < h && column >= 0 && column < w) body(row * w + column);
      }
  }
  // Calls body(i, j) for the outputs whose window holds the pixel (row, column).
  void windows_of(int64_t row, int64_t column, const auto& body) const {
    for (int64_t u = r - 1; u >= 0; --u)
      for (int64_t v = s - 1; v >= 0; --v) {
        const int64_t down = row + pad_h - u * dil_h, across = column + pad_w - v * dil_w;
        if (down < 0 || down % stride_h != 0 || across < 0 || across % stride_w != 0) continue;
        if (down / stride_h < ho() && across / stride_w < wo()) body(down / stride_h, across / stride_w);
      }
  }

  // All dimensions from the shape of x; n and c alone from that of y.
  void infer_x(Shapes::Dims X) {
    const bool last = layout == Layout::nhwc;
    n = X[0];
    c = X[last ? 3 : 1];
    h = X[last ? 1 : 2];
    w = X[last ? 2 : 3];
  }
  void infer_y(Shapes::Dims Y) {
    n = Y[0];
    c = Y[layout == Layout::nhwc ? 3 : 1];
  }

 private:
  static constexpr int64_t kMaxExtent = 1 << 24;
  static int64_t extent(int64_t size, int64_t pad, int64_t dil, int64_t taps, int64_t stride) {
    const int64_t room = size + 2 * pad - dil * (taps - 1) - 1;
    return room < 0 || stride < 1 ? 0 : room / stride + 1;
  }
};

}  // namespace duet
