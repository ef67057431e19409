// SPDX-License-Identifier: Apache-2.0
// The hyperbolic tangent. x, y, dy, dx: (n), dense; y may be x, dx may be y or dy. Arithmetic in f32 or better.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/activation_cases.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr const char* formula = "y[i] = tanh(x[i])";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, kActivationFill), y.of(dtype, {n})}; }
  double flops() const { return static_cast<double>(n); }
  // With an exp of 4u, 1 - 2 / (exp(2x) + 1) has an error of 6u of the fraction, which from x = 0.625 on is below 0.81
  // of y, and one rounding of its own. Closer to 0 other formulas are within 2 ulp = 4u, as libraries are everywhere.
  // Then y is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = gamma(6, unit_roundoff(DType::f32)) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/tanh.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"edge values", "n:1031 x=edges"},
        {"infinity", "n:33 x=inf"},
        {"negative infinity", "n:33 x=-inf"},
    };
    return activation_cases(scale, odd);
  }
};

struct TanhBackward {
  static constexpr const char* name = "tanh_backward";
  static constexpr const char* formula = "dx[i] = dy[i] (1 - y[i]^2)";
  static constexpr Slot y = input(0, "y"), dy = input(1, "dy"), dx = output(2, "dx").may_be(y, dy);
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y, dy and dx");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[y][0]; }
  std::vector<TensorSpec> tensors() const { return {y.of(dtype, {n}), dy.of(dtype, {n}), dx.of(dtype, {n})}; }
  double flops() const { return 3.0 * n; }
  // abs_sum is |dy| (1 + y^2): a square, a subtraction and a product in f32. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = gamma(3, unit_roundoff(DType::f32)), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/tanh.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"where the curve is flat", "n:33 y=-1"},
        {"edge values, infinities and NaN of gradients", "n:1031 dy=edges+inf+nan"},
    };
    return elementwise_cases(scale, odd);
  }
};

}  // namespace duet
