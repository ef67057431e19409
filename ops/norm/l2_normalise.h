// SPDX-License-Identifier: Apache-2.0
// Rows divided by their Euclidean norm, and the gradient. A product of two normalised matrices holds cosine
// similarities.
//   x, y, dy, dx: (rows, cols), row-major, dense; scale: (rows) in f32. y may be x; dx may be y or dy.
//   A norm below eps counts as eps: a row of zeros stays zero, and the gradient of such a row is scale dy. Backward,
//   those are the rows whose scale is above (1 - 2^-20) / eps.
//   Squares are not scaled: their sum has to lie within the range of f32. eps is 1e-15 or more, so that what the
//   squares lose to underflow does not matter.
// Sums are formed as ops/summation.h says.
#pragma once
#include <cstdio>
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

inline Cases l2_normalise_cases(Scale scale, const Cases& odd) {
  const Cases test{
      {"one element", "rows:1 cols:1"},
      {"no rows", "rows:0 cols:7"},
      {"nothing in each row", "rows:3 cols:0"},
      {"three columns", "rows:33 cols:3"},
      {"a lane short of a warp", "rows:3 cols:31"},
      {"a row over a block", "rows:257 cols:33"},
      {"whole packs, a warp for each row", "rows:9 cols:768"},
      {"prime, longer than a block", "rows:5 cols:1031"},
      {"a block for each row", "rows:2 cols:4096"},
      {"long rows", "rows:2 cols:12289"},
  };
  const Cases standard{
      {"8192 sentence embeddings of BERT-base", "rows:8192 cols:768"},
      {"CLIP ViT-B/32, 256 images", "rows:256 cols:512"},
  };
  const Cases more{
      {"CLIP ViT-B/32, 32768 images", "rows:32768 cols:512"},
      {"GPT-3 175B, 1024 tokens", "rows:1024 cols:12288"},
  };
  if (scale == Scale::sweep) return sweep("rows", 1, 16384, "cols:1024");
  return with_odd(scale, across(kFloatTypes, by_scale(scale, test, standard, more)), odd);
}

struct L2Normalise {
  static constexpr const char* name = "l2_normalise";
  static constexpr const char* formula = "scale[r] = 1 / max(sqrt(sum_c x[r,c]^2), eps),  y[r,c] = x[r,c] scale[r]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x), scale = output(2, "scale");
  static constexpr double kMinEps = 1e-15;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-12;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "the least norm that a row is divided by");
  }
  // The rows that count as shorter than eps, by their scale.
  static double max_scale(double eps) { return (1 - 0x1p-20) / eps; }
  static std::string invalid_eps(double eps) {
    if (eps >= kMinEps) return "";
    char text[64];
    std::snprintf(text, sizeof text, "eps must be at least 1e-15, is %g", eps);
    return text;
  }
  std::string invalid() const { return invalid_eps(eps); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)), y.of(dtype, {rows, cols}),
            scale.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 3.0 * static_cast<double>(rows) * static_cast<double>(cols); }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - scale: half of the relative error of the sum of squares, whose terms have a rounding each (none where they are
  //    squares of bf16 or f16, which are exact in f32), and 5 as in cpu_ref/norm/moments.h.
  //  - y: the error of scale, times |x|; the product is the rounding to dtype, after one to f32.
  Tolerance tolerance(int slot) const {
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/l2_normalise.cpp

  static Cases cases(Scale scale) {
    return l2_normalise_cases(scale, {{"rows of zeros", "rows:5 cols:67 x=0"},
                                      {"rows shorter than eps, and longer ones", "rows:67 cols:3 eps:2 x=-2..2"},
                                      {"one NaN, the last", "rows:3 cols:67 x=last:nan"}});
  }
};

struct L2NormaliseBackward {
  static constexpr const char* name = "l2_normalise_backward";
  static constexpr const char* formula =
      "dx[r,c] = scale[r] (dy[r,c] - y[r,c] sum_j y[r,j] dy[r,j]),  without the sum where scale[r] > (1 - 2^-20) / eps";
  static constexpr Slot y = input(0, "y"), scale = input(1, "scale"), dy = input(2, "dy");
  static constexpr Slot dx = output(3, "dx").may_be(y, dy);

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-12;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y, dy and dx");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "the least norm that a row is divided by");
  }
  std::string invalid() const { return L2Normalise::invalid_eps(eps); }
  void infer(Shapes s) {
    rows = s[y][0];
    cols = s[y][1];
  }
  std::vector<TensorSpec> tensors() const {  // y: about as long as a normalised row of some hundred elements
    return {y.of(dtype, {rows, cols}, Fill::uniform(-0.1, 0.2)),
            scale.of(statistic_dtype(dtype), {rows}, Fill::uniform(0.5, 1)),
            dy.of(dtype, {rows, cols}, Fill::uniform(-0.5, 1)), dx.of(dtype, {rows, cols})};
  }
  double flops() const { return 5.0 * static_cast<double>(rows) * static_cast<double>(cols); }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). dx, times scale: the error of the sum of y dy, whose
  // terms have a rounding each, a rounding of the sum, and one of its product with y; one of the difference, and one
  // of the product with scale. Then the result is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/l2_normalise.cpp

  static Cases cases(Scale scale) {
    return l2_normalise_cases(scale, {{"rows shorter than eps, and longer ones", "rows:67 cols:31 eps:1.5"},
                                      {"one NaN, the last", "rows:3 cols:67 dy=last:nan"}});
  }
};

}  // namespace duet
