// SPDX-License-Identifier: Apache-2.0
// Samples images at affinely mapped positions, with bilinear interpolation: shear, zoom, rotation.
//   x, y: (n, c, h, w) of dtype; theta: (n, 2, 3) f32; row-major, dense; they do not overlap. Arithmetic in f32 or
//   better.
// Coordinates are those of PyTorch's affine_grid and grid_sample with align_corners=False: -1 and 1 are the outer edges
// of an image, and the middle of output pixel (i, j) is at (u, v) = ((2 j + 1) / w - 1, (2 i + 1) / h - 1). theta maps
// it to a position of x; x is interpolated between the middles of its pixels, and 0 outside. A position that is not
// finite gives 0.
#pragma once
#include <functional>
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct Affine {
  static constexpr const char* name = "affine";
  static constexpr const char* formula =
      "(p, q) = theta[n] (u, v, 1),  y[n,c,i,j] = x[n,c] at row ((q + 1) h - 1) / 2, column ((p + 1) w - 1) / 2, "
      "bilinear, 0 outside";
  static constexpr Slot x = input(0, "x"), theta = input(1, "theta"), y = output(2, "y");

  int64_t n = 0, c = 0, h = 0, w = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height");
    field("w", w, "width");
  }
  void infer(Shapes s) {
    n = s[x][0];
    c = s[x][1];
    h = s[x][2];
    w = s[x][3];
  }
  // f32 has to tell neighbouring positions apart, and an index within a plane is an i32.
  std::string invalid() const {
    for (const int64_t v : {h, w})
      if (v > (1 << 20)) return std::to_string(v) + ": height and width are 2^20 at most";
    return h * w > INT32_MAX ? "h w: below 2^31, is " + std::to_string(h * w) : "";
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n, c, h, w}), theta.of(statistic_dtype(dtype), {n, 2, 3}), y.of(dtype, {n, c, h, w})};
  }
  // theta: zoom by 0.8 to 1.2, shear by up to 0.2, shift by up to a twentieth of the image.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != theta.index) return {};
    return [](int64_t element, uint32_t bits) {
      const double uniform = bits * 0x1p-31 - 1;  // -1 to 1
      const int64_t at = element % 6;
      return at % 4 == 0 ? 1 + 0.2 * uniform : at % 3 == 2 ? 0.1 * uniform : 0.2 * uniform;
    };
  }
  double flops() const { return 8.0 * static_cast<double>(n * c * h * w); }
  // abs_sum is an error in units of u = 2^-24; cpu_ref/elementwise/affine.cpp derives it for each element: what the
  // interpolated image varies by within the error of a position in f32, and the roundings of the interpolation.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return n * c * h; }                     // a row of a plane of y
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/affine.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one pixel", "n:1 c:1 h:1 w:1"},
        {"no images", "n:0 c:3 h:5 w:7"},
        {"no channels", "n:2 c:0 h:5 w:7"},
        {"no pixels", "n:2 c:3 h:0 w:7"},
        {"nothing square", "n:3 c:3 h:9 w:13"},
        {"beside a warp", "n:2 c:2 h:31 w:33"},
        {"whole packs", "n:2 c:3 h:16 w:64"},
        {"one column", "n:2 c:1 h:40 w:1"},
        {"every pixel from one place", "n:1 c:2 h:9 w:33 theta=0"},
        {"far outside", "n:1 c:2 h:9 w:33 theta=1e30"},
        {"far outside on the other side", "n:1 c:2 h:9 w:33 theta=-100"},
        {"a position that is not a number", "n:2 c:2 h:9 w:33 theta=nan"},
        {"infinite positions", "n:1 c:2 h:9 w:33 theta=inf"},
        {"one infinity, the last", "n:1 c:1 h:33 w:31 x=last:inf"},
    };
    const Cases standard{
        {"image CNN: 224 x 224, batch 32", "n:32 c:3 h:224 w:224"},
        {"spatial transformer (arXiv:1506.02025), 28 x 28, batch 256", "n:256 c:1 h:28 w:28"},
    };
    const Cases more{
        {"image CNN: 256 x 256, batch 64", "n:64 c:3 h:256 w:256"},
    };
    if (scale == Scale::sweep) return sweep("n", 1, 4096, "c:1 h:32 w:32");
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

}  // namespace duet
