// SPDX-License-Identifier: Apache-2.0
// The logistic function. x, y, dy, dx: (n), dense; y may be x, dx may be y or dy. Arithmetic in f32 or better.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/activation_cases.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr const char* formula = "y[i] = 1 / (1 + exp(-x[i]))";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, kActivationFill), y.of(dtype, {n})}; }
  double flops() const { return 3.0 * n; }
  // An exp of 2 ulp = 4u, an addition of positive terms and a division: 6 roundings in f32. Then y is rounded to dtype.
  // An exp may be formed as twice its half, which is flushed to zero below twice the smallest normal number.
  Tolerance tolerance() const {
    return {.rel = gamma(6, unit_roundoff(DType::f32)) + unit_roundoff(dtype), .abs = 2 * underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/sigmoid.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"edge values", "n:1031 x=edges"},
        {"infinity", "n:33 x=inf"},
        {"negative infinity", "n:33 x=-inf"},
    };
    return activation_cases(scale, odd);
  }
};

struct SigmoidBackward {
  static constexpr const char* name = "sigmoid_backward";
  static constexpr const char* formula = "dx[i] = dy[i] y[i] (1 - y[i])";
  static constexpr Slot y = input(0, "y"), dy = input(1, "dy"), dx = output(2, "dx").may_be(y, dy);
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y, dy and dx");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[y][0]; }
  std::vector<TensorSpec> tensors() const {
    return {y.of(dtype, {n}, Fill::uniform(0, 1)), dy.of(dtype, {n}), dx.of(dtype, {n})};
  }
  double flops() const { return 3.0 * n; }
  // A subtraction of exact values and two products: 3 roundings in f32. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = gamma(3, unit_roundoff(DType::f32)) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/sigmoid.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"where the curve is flat", "n:33 y=1"},
        {"edge values, infinities and NaN of gradients", "n:1031 dy=edges+inf+nan"},
    };
    return elementwise_cases(scale, odd);
  }
};

}  // namespace duet
