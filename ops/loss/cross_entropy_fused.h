// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy, averaged over rows, together with its gradient: the last op of a forward pass and the first of
// the backward pass in one, as training steps of language models have it, which read the scores once and write the
// gradient in their place. cross_entropy and cross_entropy_backward (ops/loss/cross_entropy.h) are the two ops: they
// read x once each.
//   x, dx: (rows, cols), row-major, dense, x finite; label: (rows) i32; loss: (1) in f32; dx may be x. A label outside
//   [0, cols) marks no column: its row has no one-hot term. The loss of no rows is 0.
//   scaled: dx is the gradient of scale times the loss, scale: (1) in f32 (arXiv:1710.03740); the loss is not scaled.
//   Beyond the largest finite value of dtype dx is infinite.
// Sums are formed as ops/summation.h says. Label smoothing: arXiv:1512.00567.
#pragma once
#include "ops/loss/cross_entropy.h"

namespace duet {

struct CrossEntropyFused {
  static constexpr const char* name = "cross_entropy_fused";
  static constexpr const char* formula =
      "lse[r] = log sum_c exp(x[r,c]),  q[r,c] = (1 - smooth) [c = label[r]] + smooth / cols,  "
      "loss = mean_r (lse[r] - sum_c q[r,c] x[r,c]),  dx[r,c] = (exp(x[r,c] - lse[r]) - q[r,c]) / rows;  "
      "scaled: dx = scale dx";
  static constexpr Slot x = input(0, "x"), label = input(1, "label");
  static constexpr Slot loss = output(2, "loss"), dx = output(3, "dx").may_be(x);
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
    field.option("scaled", scaled, "the gradient is multiplied by scale");
  }
  std::string invalid() const { return CrossEntropy{rows, cols, dtype, smooth}.invalid(); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, {rows, cols}, Fill::uniform(-kReach, kReach)),
                                label.of(DType::i32, {rows}, Fill::below(std::max<int64_t>(1, cols))),
                                loss.of(statistic_dtype(dtype), {1}), dx.of(dtype, {rows, cols})};
    if (scaled) all.push_back(scale.of(statistic_dtype(dtype), {1}, Fill::uniform(1000, 2000)));
    return all;
  }
  double flops() const { return 6.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - loss: as in cross_entropy.
  //  - dx, times rows / scale: p = exp(x - lse) has an exp of 2 ulp = 4u whose argument was rounded, and the error of
  //    lse, which is absolute there, with its rounding; or, as a quotient of exp(x - max) and their sum, no more. q has
  //    3 roundings; 1 of their difference, 2 of scale / rows and the product with it. Then dx is rounded to dtype.
  Tolerance tolerance(int slot) const {
    return {.rel = unit_roundoff(slot == dx.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == dx.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows + 1; }  // a row of dx; the last one: the loss
  std::vector<int64_t> parts() const { return {rows, 1}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/loss/cross_entropy.cpp

  static Cases cases(Scale scale) {  // those of CrossEntropy, and scaled
    const Cases test{
        {"scaled, past the largest of f16", "rows:1 cols:7 scaled:1 scale=1048576"},
        {"scaled by a negative number", "rows:3 cols:31 scaled:1 scale=-2"},
        {"scaled, smoothed", "rows:257 cols:33 smooth:0.1 scaled:1"},
        {"scaled, longer than a block holds", "rows:2 cols:8200 scaled:1"},
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
