// SPDX-License-Identifier: Apache-2.0
// Binary cross-entropy of logits x and targets t, averaged, and its gradient.
//   x, t, dx: (n), dense; loss: (1) in f32; dx may be x.
// max(x, 0) - x t + log1p(exp(-|x|)) is -t log p - (1 - t) log(1 - p) with p = sigmoid(x), without overflow.
// scale: dx is the gradient of scale times the loss, which keeps it in the range of f16 (arXiv:1710.03740). scaled: of
// scale loss_scale times the loss, loss_scale: (1) in f32. Beyond the largest finite value of dtype dx is infinite.
// The loss of no elements is 0. Sums are formed as ops/summation.h says.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/elementwise/chunk.h"
#include "ops/loss/mean_cases.h"
#include "ops/statistic.h"

namespace duet {

struct BceLogits {
  static constexpr const char* name = "bce_logits";
  static constexpr const char* formula = "loss = mean_i (max(x[i], 0) - x[i] t[i] + log1p(exp(-|x[i]|)))";
  static constexpr Slot x = input(0, "x"), t = input(1, "t"), loss = output(2, "loss");

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and t");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n}, Fill::normal(0, 3)), t.of(dtype, {n}, Fill::uniform(0, 1)),
            loss.of(statistic_dtype(dtype), {1})};
  }
  double flops() const { return 6.0 * n; }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). A term has the roundings of a product, a difference
  // and a sum, an exp of 2 ulp = 4u and a log1p with as many, all independent of those of other terms, but for a mean
  // of 1u of the log1p. Then the additions and the division of the mean. The loss is rounded to f32.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(DType::f32), .abs_sum = kF32Roundoff, .abs = underflow(DType::f32)};
  }
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/loss/bce_logits.cpp

  static Cases cases(Scale scale) {
    return with_odd(scale, mean_cases(scale), {{"past the range of exp in f32", "n:1031 x=-120..120"}});
  }
};

struct BceLogitsBackward {
  static constexpr const char* name = "bce_logits_backward";
  static constexpr const char* formula = "dx[i] = scale (1 / (1 + exp(-x[i])) - t[i]) / n;  scaled: dx = loss_scale dx";
  static constexpr Slot x = input(0, "x"), t = input(1, "t"), dx = output(2, "dx").may_be(x);
  static constexpr Slot loss_scale = input(3, "loss_scale");  // with scaled

  int64_t n = 0;
  DType dtype = DType::f32;
  double scale = 1;
  bool scaled = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, t and dx");
    field("n", n, "elements");
    field.option("scale", scale, "of the loss");
    field.option("scaled", scaled, "the loss is multiplied by loss_scale as well");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, {n}, Fill::normal(0, 3)), t.of(dtype, {n}, Fill::uniform(0, 1)),
                                dx.of(dtype, {n})};
    if (scaled) all.push_back(loss_scale.of(statistic_dtype(dtype), {1}, Fill::uniform(1000, 2000)));
    return all;
  }
  double flops() const { return 5.0 * n; }
  // abs_sum is scale (sigmoid + |t|) / n: an exp of 4u, an addition, a division, a subtraction; scale / n and the
  // product with it. loss_scale adds the rounding of its product with scale.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(scaled ? 11 : 10, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/loss/bce_logits.cpp

  static Cases cases(Scale scale) {
    return with_odd(scale, mean_backward_cases(scale),
                    {{"past the range of exp in f32", "n:1031 x=-120..120"},
                     {"a scale from memory", "n:1031 scaled:1"},
                     {"both scales, past the largest of f16", "n:7 scale:0.5 scaled:1 loss_scale=1048576"}});
  }
};

}  // namespace duet
