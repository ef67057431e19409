// SPDX-License-Identifier: Apache-2.0
// The mean of each plane, and its gradient.
//   x, dx: (n, c, h, w) in layout nchw, (n, h, w, c) in nhwc; y, dy: (n, c); dense.
// A plane without pixels gives 0. Backward: dx is overwritten. Sums are formed as ops/summation.h says.
#pragma once
#include "ops/bounded_sum.h"
#include "ops/conv/conv2d.h"  // Layout
#include "ops/pool/global_avg_pool_cases.h"

namespace duet {

struct GlobalAvgPool {
  static constexpr const char* name = "global_avg_pool";
  static constexpr const char* formula = "y[n,c] = sum_{p,q} x[n,c,p,q] / (h w)";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");

  int64_t n = 0, c = 0, h = 0, w = 0;
  Layout layout = Layout::nchw;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height of x");
    field("w", w, "width of x");
    field.option("layout", layout, "order of the axes in memory");
  }
  void infer(Shapes shapes) {
    const auto X = shapes[x];
    const bool last = layout == Layout::nhwc;
    n = X[0];
    c = X[last ? 3 : 1];
    h = X[last ? 1 : 2];
    w = X[last ? 2 : 3];
  }
  int64_t pixels() const { return h * w; }
  int64_t images() const { return layout == Layout::nchw ? n * c : n; }  // x: (images, pixels, depth)
  int64_t depth() const { return layout == Layout::nchw ? 1 : c; }
  Shape x_shape() const { return layout == Layout::nchw ? Shape{n, c, h, w} : Shape{n, h, w, c}; }
  std::vector<TensorSpec> tensors() const {  // x has both signs and a mean of 0.5: a lost part of the sum shows
    return {x.of(dtype, x_shape(), Fill::uniform(-0.5, 1.5)), y.of(dtype, {n, c})};
  }
  double flops() const { return static_cast<double>(n * c * pixels()); }
  // abs_sum is an error in units of u = 2^-24: that of the additions (ops/bounded_sum.h). Then come the reciprocal of
  // h w and the product with it, and y is rounded to dtype.
  Tolerance tolerance() const {
    return {
        .rel = 2 * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return n * c; }                     // an element of y
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/pool/global_avg_pool.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one NaN, the last: only its plane is NaN", "n:3 c:33 h:7 w:7 x=last:nan"},
    };
    return concat({global_avg_pool_cases(scale), by_scale(scale, across(kFloatTypes, across(kLayouts, odd)), {})});
  }
};

struct GlobalAvgPoolBackward {
  static constexpr const char* name = "global_avg_pool_backward";
  static constexpr const char* formula = "dx[n,c,p,q] = dy[n,c] / (h w)";
  static constexpr Slot dy = input(0, "dy"), dx = output(1, "dx");

  int64_t n = 0, c = 0, h = 0, w = 0;
  Layout layout = Layout::nchw;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of dy and dx");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height of dx");
    field("w", w, "width of dx");
    field.option("layout", layout, "order of the axes in memory");
  }
  void infer(Shapes shapes) {
    n = shapes[dy][0];
    c = shapes[dy][1];
  }  // h and w are given
  GlobalAvgPool forward() const { return {n, c, h, w, layout, dtype}; }
  std::vector<TensorSpec> tensors() const {  // dy: in f16 large enough for dx to be in its range, as in a scaled loss
    const double reach = dtype == DType::f16 ? static_cast<double>(std::clamp<int64_t>(h * w, 1, 1024)) : 1;
    return {dy.of(dtype, {n, c}, Fill::uniform(-reach, reach)), dx.of(dtype, forward().x_shape())};
  }
  double flops() const { return static_cast<double>(n * c * h * w); }
  // The reciprocal of h w, and the product with it; then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = 2 * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return n * c; }                     // a plane of dx
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/pool/global_avg_pool.cpp

  static Cases cases(Scale scale) { return global_avg_pool_cases(scale); }
};

}  // namespace duet
