// SPDX-License-Identifier: Apache-2.0
// The Euclidean norm of a flat arena, as of all gradients. x: (n), dense; y: (1) in f32. The norm of nothing is 0. Squares
// are not scaled: sums past the range of f32 are infinite. Summation as in ops/summation.h.
#pragma once
#include "core/problem.h"
#include "ops/statistic.h"
#include "ops/summation.h"

namespace duet {

struct Norm2 {
  static constexpr const char* name = "norm2";
  static constexpr const char* formula = "y = sqrt(sum_i x[i]^2)";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), y.of(statistic_dtype(dtype), {1})}; }
  double flops() const { return 2.0 * n; }
  // All terms are positive: the roundings of a square and its additions, halved by the root, which rounds too.
  Tolerance tolerance() const {
    return {.rel = gamma((1 + additions(n)) / 2 + 1, unit_roundoff(DType::f32)), .abs = underflow(DType::f32)};
  }
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/reduction/norm2.cpp

  static std::vector<Case<Norm2>> cases(Scale scale) {
    if (scale == Scale::test)
      return across(&Norm2::dtype, kFloats,
                    {{"nothing", {0}},
                     {"one element", {1}},
                     {"three elements", {3}},
                     {"a lane short of a warp", {31}},
                     {"a lane over a warp", {33}},
                     {"prime, longer than a block", {1031}},
                     {"several tasks, the last short", {100003}}});
    constexpr DType kWide[] = {DType::f32, DType::bf16};
    auto all = across(&Norm2::dtype, kWide,
                      {{"ResNet-50", {25557032}}, {"LeNet", {62006}}, {"4 KiB in f32: the cost of a call", {1 << 10}}});
    if (scale == Scale::full)
      all = concat(std::move(all),
                   across(&Norm2::dtype, kWide, {{"BERT-base", {109482240}}, {"GPT-2 124M", {124439808}}}));
    return all;
  }
};

}  // namespace duet
