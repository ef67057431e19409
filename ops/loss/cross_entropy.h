// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy, averaged over rows, and its gradient.
//   x, dx: (rows, cols), row-major, dense, x finite; label: (rows) i32; loss: (1) and lse: (rows) in f32; dx may be x.
//   A label outside [0, cols) marks no column: its row has no one-hot term. The loss of no rows is 0.
//   scaled: dx is the gradient of scale times the loss, scale: (1) in f32, which keeps small gradients in the range of
//   f16 (arXiv:1710.03740). Beyond the largest finite value of dtype dx is infinite.
// Sums are formed as ops/summation.h says. Label smoothing: arXiv:1512.00567.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  static constexpr const char* formula =
      "lse[r] = log sum_c exp(x[r,c]),  loss = mean_r (lse[r] - sum_c q[r,c] x[r,c]),  "
      "q[r,c] = (1 - smooth) [c = label[r]] + smooth / cols";
  static constexpr Slot x = input(0, "x"), label = input(1, "label"), loss = output(2, "loss"), lse = output(3, "lse");
  static constexpr double kReach = 10;  // x lies in +-kReach

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double smooth = 0;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("rows", rows, "samples");
    field("cols", cols, "classes");
    field.option("smooth", smooth, "share of the target that is spread over all classes, 0 to 1");
  }
  std::string invalid() const {
    if (smooth < 0 || smooth > 1) return "smooth must lie in 0 to 1, is " + std::to_string(smooth);
    return rows > 0 && cols == 0 ? "cols must be at least 1 where there are rows, is 0" : "";
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
            label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))), loss.of(statistic_dtype(dtype), {1}),
            lse.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 3.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - lse = m + log s with s = sum_c exp(x - m) >= 1. A term of s has an exp of 2 ulp = 4u, whose argument was
  //    rounded: |x - m|, or |x| where x was multiplied by log2 e first, and |m| / 4 for a rounded log2 e. These
  //    errors and the additions', relative to s, are absolute in log s; 8 are allowed for a mean of the exp's error
  //    and for partial sums that were rescaled to a larger maximum. The logarithm has 2 ulp = 4u; the addition of m
  //    rounds lse to f32.
  //  - loss: the errors of the rows, with the roundings of lse, of q x (3 each), its additions, and of the difference,
  //    independent of each other, but for a mean of 1u of log s; the additions over rows, and the division.
  Tolerance tolerance() const { return {.rel = unit_roundoff(DType::f32), .abs_sum = kF32Roundoff}; }
  int64_t slices() const { return rows + 1; }  // lse of a row; the last one: the loss
  std::vector<int64_t> parts() const { return {rows, 1}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/loss/cross_entropy.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one class: the loss is 0", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"MLP 784-128-10, batch 32", "rows:32 cols:10"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"a row over a block, smoothed", "rows:257 cols:33 smooth:0.1"},
        {"whole packs, a warp for each row", "rows:9 cols:256"},
        {"whole packs, a block for each row, smoothed", "rows:2 cols:2048 smooth:0.1"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"long rows, several tasks, smoothed", "rows:3 cols:50257 smooth:0.1"},
        {"labels beyond the classes", "rows:33 cols:7 label=below:14"},
        {"no row has a label, smoothed", "rows:5 cols:67 smooth:0.1 label=-1"},
        {"the lowest number as a label", "rows:3 cols:31 label=-2147483648"},
        {"every score so low that its exp is 0", "rows:5 cols:67 x=-120..-90"},
    };
    const Cases standard{
        {"GPT-2 vocabulary, 512 tokens", "rows:512 cols:50257"},
        {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
        {"MLP 784-128-10, batch 32", "rows:32 cols:10"},
    };
    const Cases more{
        {"GPT-2 vocabulary, 8192 tokens", "rows:8192 cols:50257"},
        {"Transformer base, 25000 tokens, smoothed", "rows:25000 cols:37000 smooth:0.1"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("rows", 1, 16384, "cols:1000"))});
  }
};

struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  static constexpr const char* formula =
      "dx[r,c] = (exp(x[r,c] - lse[r]) - q[r,c]) / rows,  q[r,c] = (1 - smooth) [c = label[r]] + smooth / cols;  "
      "scaled: dx = scale dx";
  static constexpr Slot x = input(0, "x"), label = input(1, "label"), lse = input(2, "lse"),
                        dx = output(3, "dx").may_be(x);
  static constexpr Slot scale = input(4, "scale");  // with scaled
  static constexpr double kReach = CrossEntropy::kReach;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double smooth = 0;
  bool scaled = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and dx");
    field("rows", rows, "samples");
    field("cols", cols, "classes");
    field.option("smooth", smooth, "share of the target that is spread over all classes, 0 to 1");
    field.option("scaled", scaled, "the loss is multiplied by scale");
  }
  std::string invalid() const { return CrossEntropy{rows, cols, dtype, smooth}.invalid(); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {  // lse lies above every x: exp(x - lse) is a probability
    std::vector<TensorSpec> all{x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
                                label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))),
                                lse.of(statistic_dtype(dtype), {rows}, Fill::uniform(kReach, 2 * kReach)),
                                dx.of(dtype, {rows, cols})};
    if (scaled) all.push_back(scale.of(statistic_dtype(dtype), {1}, Fill::uniform(1000, 2000)));
    return all;
  }
  double flops() const { return 4.0 * rows * cols; }

  // abs_sum is (exp + q) / rows: an exp of 2 ulp = 4u whose argument, at most 3 kReach, was rounded once; q has 3
  // roundings; one subtraction; 1 / rows, or scale / rows, and the product with it. Then dx is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(4 + 3 * kReach + 3 + 1 + 2, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/loss/cross_entropy.cpp

  static Cases cases(Scale scale) {  // those of CrossEntropy, and scaled
    const Cases test{
        {"scaled, past the largest of f16", "rows:1 cols:7 scaled:1 scale=1048576"},
        {"scaled by a negative number", "rows:3 cols:31 scaled:1 scale=-2"},
        {"scaled, smoothed", "rows:257 cols:33 smooth:0.1 scaled:1"},
        {"scaled, longer than a block", "rows:5 cols:1031 scaled:1"},
        {"every score so low that its exp is 0", "rows:5 cols:67 x=-120..-90 lse=-90..-85"},
        {"the same, in whole packs", "rows:5 cols:64 x=-120..-90 lse=-90..-85"},
    };
    if (scale == Scale::test) return concat({CrossEntropy::cases(scale), across(kFloatTypes, test)});
    // An n-th of a gradient would be below the range of f16.
    Cases all = CrossEntropy::cases(scale);
    for (Case& c : all)
      if (c.text.find("dtype:f16") != c.text.npos) c.text += " scaled:1";
    return all;
  }
};

}  // namespace duet
