// SPDX-License-Identifier: Apache-2.0
// The mean squared error and its gradient. x, t, dx: (n), dense; loss: (1) in f32; dx may be x.
// scale: dx is the gradient of scale times the loss, which keeps it in the range of f16 (arXiv:1710.03740).
// The loss of no elements is 0. Sums are formed as ops/summation.h says.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/elementwise/chunk.h"
#include "ops/loss/mean_cases.h"
#include "ops/statistic.h"

namespace duet {

struct Mse {
  static constexpr const char* name = "mse";
  static constexpr const char* formula = "loss = mean_i (x[i] - t[i])^2";
  static constexpr Slot x = input(0, "x"), t = input(1, "t"), loss = output(2, "loss");

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and t");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n}, {}), t.of(dtype, {n}, {}), loss.of(statistic_dtype(dtype), {1})};
  }
  double flops() const { return 3.0 * n; }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h): the rounding of a difference of exact values counts
  // twice in its square, which is rounded too; then the additions and the division of the mean. The loss is rounded to
  // f32.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(DType::f32), .abs_sum = kF32Roundoff, .abs = underflow(DType::f32)};
  }
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/loss/mse.cpp

  static Cases cases(Scale scale) { return mean_cases(scale); }
};

struct MseBackward {
  static constexpr const char* name = "mse_backward";
  static constexpr const char* formula = "dx[i] = scale 2 (x[i] - t[i]) / n";
  static constexpr Slot x = input(0, "x"), t = input(1, "t"), dx = output(2, "dx").may_be(x);

  int64_t n = 0;
  DType dtype = DType::f32;
  double scale = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, t and dx");
    field("n", n, "elements");
    field.option("scale", scale, "of the loss");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, {}), t.of(dtype, {n}, {}), dx.of(dtype, {n})}; }
  double flops() const { return 2.0 * n; }
  // A difference of exact values, scale 2 / n and the product with it: 4 roundings in f32. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = gamma(4, unit_roundoff(DType::f32)) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/loss/mse.cpp

  static Cases cases(Scale scale) { return mean_backward_cases(scale); }
};

}  // namespace duet
