// SPDX-License-Identifier: Apache-2.0
// The mean of each window, of images and windows as in ops/pool/pool2d.h, over the pixels that exist, or, count_pad = 1, over
// r s. A window without a pixel gives 0. Backward: dx is overwritten. Sums are formed in f32 or better.
#pragma once
#include "ops/pool/pool2d.h"

namespace duet {

struct AvgPool2d : Pool2d {
  static constexpr const char* name = "avg_pool2d";
  static constexpr const char* formula =
      "y[n,c,i,j] = sum_{u,v} x[n, c, i*stride_h - pad_h + u*dil_h, j*stride_w - pad_w + v*dil_w] / count[i,j]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");

  bool count_pad = false;

  void attributes(auto&& field) {
    Pool2d::attributes(field);
    field.option("count_pad", count_pad, "what lies outside x counts as zeros");
  }
  void infer(Shapes shapes) { infer_x(shapes[x]); }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, x_shape()), y.of(dtype, y_shape())}; }
  double flops() const { return static_cast<double>(r * s * y_elements()); }
  // r s additions; the reciprocals of a window's height and width, and their products with the sum. Then to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(static_cast<double>(r * s) + 4, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return images() * ho(); }               // a row of y
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/avg_pool2d.cpp

  static std::vector<Case<AvgPool2d>> cases(Scale scale) { return with_count_pad(cases_of<AvgPool2d>(scale)); }

  template <class P>
  static std::vector<Case<P>> with_count_pad(std::vector<Case<P>> all) {  // where it makes a difference
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      Case<P> padded = all[i];
      padded.problem.count_pad = true;
      if (padded.problem.pad_h + padded.problem.pad_w > 0 && padded.problem.dtype == DType::f32) all.push_back(padded);
    }
    return all;
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
    field.option("count_pad", count_pad, "what lies outside x counts as zeros");
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

  static std::vector<Case<AvgPool2dBackward>> cases(Scale scale) {
    return AvgPool2d::with_count_pad(cases_of<AvgPool2dBackward>(scale));
  }
};

}  // namespace duet
