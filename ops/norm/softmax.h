// SPDX-License-Identifier: Apache-2.0
// Softmax over the last axis. x, y: (rows, cols), row-major, dense; y may be x. Backward: dx may be y or dy.
// Arithmetic is f32 or better. Why m: exp overflows f32 above 88.7.
// Maximum and sum in one pass: arXiv:1805.02867.
#pragma once
#include "core/problem.h"

namespace duet {

struct Softmax {
  static constexpr const char* name = "softmax";
  static constexpr const char* formula = "y[r,c] = exp(x[r,c] - m[r]) / sum_j exp(x[r,j] - m[r]),  m[r] = max_j x[r,j]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr double kReach = 20;  // x lies in +-kReach: a few columns carry the mass, the rest the tail

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
    return {x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)), y.of(dtype, {rows, cols})};
  }
  double flops() const { return 4.0 * rows * cols; }  // subtract, exp, add, divide: 1 each

  // Every term of the sum is positive, so errors stay relative: cols additions, one division, and twice an
  // exp (2 ulp = 4u) whose argument, at most 2 kReach, was rounded once, after x times a rounded log2 e (|x| u / 4).
  // Then y is rounded to dtype.
  Tolerance tolerance() const {
    const double roundings = cols + 1 + 2 * (4 + 2 * kReach + kReach / 4);
    return {.rel = roundings * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/softmax.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"nothing in each row", "rows:3 cols:0"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"a row over a block", "rows:257 cols:33"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"long rows, several tasks", "rows:3 cols:50257"},
    };
    const Cases standard{
        {"GPT-2 124M scores, one head, 8 x 1024 tokens", "rows:8192 cols:1024"},
        {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
        {"GPT-2 vocabulary, 512 tokens", "rows:512 cols:50257"},
        {"Transformer NLP, benchdnn", "rows:8576 cols:67"},
    };
    const Cases more{
        {"GPT-2 124M scores, B8 H12 T1024", "rows:98304 cols:1024"},
        {"GPT-2 vocabulary, 4096 tokens", "rows:4096 cols:50257"},
    };
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  static constexpr const char* formula = "dx[r,c] = y[r,c] (dy[r,c] - sum_j y[r,j] dy[r,j])";
  static constexpr Slot y = input(0, "y"), dy = input(1, "dy"), dx = output(2, "dx");
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
  std::vector<TensorSpec> tensors() const {  // y: probabilities, about 1 in sum
    return {y.of(dtype, {rows, cols}, Fill::uniform(0, 2.0 / std::max<int64_t>(1, cols))), dy.of(dtype, {rows, cols}),
            dx.of(dtype, {rows, cols})};
  }
  double flops() const { return 4.0 * rows * cols; }

  // terms, of y (|dy| + sum_j |y dy|): a product and at most cols additions in the sum, one subtraction, one product,
  // all in f32. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {
        .rel = unit_roundoff(dtype), .abs_sum = gamma(cols + 3, unit_roundoff(DType::f32)), .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/softmax.cpp

  static Cases cases(Scale scale) { return Softmax::cases(scale); }
};

}  // namespace duet
