// SPDX-License-Identifier: Apache-2.0
// The mean of each window, and its gradient. Images and windows are those of ops/pool/pool2d.h. The mean is taken over
// the pixels that exist, or with count_pad = 1 over r s. A window without a pixel gives 0. Backward: dx is overwritten.
// Sums are formed in f32 or better.
#pragma once
#include "ops/pool/pool2d.h"
#include "ops/pool/pool2d_cases.h"

namespace duet {

// The shapes of both passes.
inline Cases avg_pool2d_cases(Scale scale) {
  const Cases padded = having("pad_", pool2d_shapes(scale));  // where count_pad makes a difference
  return concat({pool2d_cases(scale), with("dtype:f32 count_pad:1", padded)});
}

struct AvgPool2d : Pool2d {
  static constexpr const char* name = "avg_pool2d";
  static constexpr const char* formula =
      "y[n,c,i,j] = sum_{u,v} x[n, c, i*stride_h - pad_h + u*dil_h, j*stride_w - pad_w + v*dil_w] / count[i,j]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");

  bool count_pad = false;

  void attributes(auto&& field) {
    Pool2d::attributes(field);
    field.option("count_pad", count_pad, "pixels outside x count as zeros");
  }
  void infer(Shapes shapes) { infer_x(shapes[x]); }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, x_shape()), y.of(dtype, y_shape())}; }
  double flops() const { return static_cast<double>(r * s * y_elements()); }
  // r s additions; the reciprocals of a window's height and width, and their products with the sum. Then y is rounded
  // to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(static_cast<double>(r * s) + 4, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return images() * ho(); }               // a row of y
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/avg_pool2d.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one NaN, the last: only its windows are NaN", "n:2 c:33 h:7 w:11 r:3 s:3 pad_h:1 pad_w:1 x=last:nan"},
    };
    return concat({avg_pool2d_cases(scale), by_scale(scale, across(kFloatTypes, across(kLayouts, odd)), {})});
  }
};

struct AvgPool2dBackward : Pool2d {
  static constexpr const char* name = "avg_pool2d_backward";
  static constexpr const char* formula =
      "dx[n,c,p,q] = sum_{i,j} dy[n,c,i,j] / count[i,j],  over the windows that hold (p, q)";
  static constexpr Slot dy = input(0, "dy"), dx = output(1, "dx");

  bool count_pad = false;

  void attributes(auto&& field) {
    Pool2d::attributes(field);
    field.option("count_pad", count_pad, "pixels outside x count as zeros");
  }
  void infer(Shapes shapes) { infer_y(shapes[dy]); }  // h and w are given
  std::vector<TensorSpec> tensors() const { return {dy.of(dtype, y_shape()), dx.of(dtype, x_shape())}; }
  double flops() const { return static_cast<double>(r * s * y_elements()); }
  Tolerance tolerance() const {  // as AvgPool2d, with the additions of a pixel's windows
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(static_cast<double>(overlap()) + 4, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return images() * h; }                  // a row of dx
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/avg_pool2d.cpp

  static Cases cases(Scale scale) { return avg_pool2d_cases(scale); }
};

}  // namespace duet
