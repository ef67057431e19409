// SPDX-License-Identifier: Apache-2.0
// Softmax over the last axis and its gradient.
//   x, y, dy, dx: (rows, cols), row-major, dense; y may be x, dx may be y or dy.
//   x may be -inf, which gives 0 beside other values; a row of nothing else gives NaN. Finite x lie within +-2^127 /
//   log2 e, because implementations may work with x log2 e.
// Arithmetic is in f32 or better. The maximum m is subtracted because exp overflows f32 above 88.7.
// Maximum and sum in one pass: arXiv:1805.02867.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/norm/softmax_cases.h"

namespace duet {

struct Softmax {
  static constexpr const char* name = "softmax";
  static constexpr const char* formula = "y[r,c] = exp(x[r,c] - m[r]) / sum_j exp(x[r,j] - m[r]),  m[r] = max_j x[r,j]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);
  // A few columns carry the mass, the rest the tail. Where many are uniform, too many share it: in f16 most results are
  // below the range of normal values, which says nothing. There, many are drawn from a normal distribution.
  static constexpr double kReach = 20, kDeviation = 5;
  static constexpr int64_t kMaxUniform = 4096;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "independent distributions");
    field("cols", cols, "outcomes in each");
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    const Fill fill = is_uniform() ? Fill::uniform(-kReach, kReach) : Fill::normal(0, kDeviation);
    return {x.of(dtype, {rows, cols}, fill), y.of(dtype, {rows, cols})};
  }
  bool is_uniform() const { return dtype != DType::f16 || cols <= kMaxUniform; }
  double reach() const { return is_uniform() ? kReach : 7 * kDeviation; }  // of |x|
  double flops() const { return 4.0 * rows * cols; }                       // subtract, exp, add, divide: 1 each

  // Every term of the sum is positive, so errors stay relative: cols additions, independent (ops/summation.h), one
  // division, and twice an exp (2 ulp = 4u) whose argument, at most 2 reach, was rounded once, after x was multiplied
  // by a rounded log2 e (|x| u / 4).
  // Then y is rounded to dtype.
  Tolerance tolerance() const {
    const double roundings = independent(static_cast<double>(cols)) + 1 + 2 * (4 + 2 * reach() + reach() / 4);
    return {.rel = roundings * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/softmax.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one masked outcome, the last", "rows:5 cols:1031 x=last:-inf"},
        {"nothing but masked outcomes: NaN", "rows:3 cols:31 x=-inf"},
        {"every score so low that its exp is 0", "rows:5 cols:67 x=-120..-90"},
        {"the same, in whole packs", "rows:5 cols:64 x=-120..-90"},
        {"one NaN, the last: its row alone is NaN", "rows:5 cols:1031 x=last:nan"},
        {"a row of one value", "rows:3 cols:31 x=-7"},
        {"a masked outcome, by a low value", "rows:3 cols:31 x=last:-2e38"},
    };
    return with_odd(scale, softmax_cases(scale), odd);
  }
};

struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  static constexpr const char* formula = "dx[r,c] = y[r,c] (dy[r,c] - sum_j y[r,j] dy[r,j])";
  static constexpr Slot y = input(0, "y"), dy = input(1, "dy"), dx = output(2, "dx").may_be(y, dy);
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y, dy and dx");
    field("rows", rows, "independent distributions");
    field("cols", cols, "outcomes in each");
  }
  void infer(Shapes s) {
    rows = s[y][0];
    cols = s[y][1];
  }
  // y: probabilities that add up to about 1. dy: in f16 large enough for dx to be in its range, as in a scaled loss.
  std::vector<TensorSpec> tensors() const {
    const auto outcomes = static_cast<double>(std::max<int64_t>(1, cols));
    const double reach = dtype == DType::f16 ? std::max(1.0, outcomes / 8) : 1;
    return {y.of(dtype, {rows, cols}, Fill::uniform(0, 2 / outcomes)),
            dy.of(dtype, {rows, cols}, Fill::uniform(-reach, reach)), dx.of(dtype, {rows, cols})};
  }
  double flops() const { return 4.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h): y times the error of the sum, whose terms have the
  // rounding of a product and at most cols additions, and a subtraction and a product, relative to dx. Then dx is
  // rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/softmax.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one NaN, the last: its row alone is NaN", "rows:5 cols:1031 dy=last:nan"},
        {"outcomes without probability", "rows:3 cols:31 y=0"},
    };
    return with_odd(scale, softmax_cases(scale), odd);
  }
};

}  // namespace duet
