// SPDX-License-Identifier: Apache-2.0
// Divides the gradients of a scaled loss by its scale, and tells whether any of them overflowed (arXiv:1710.03740).
// g, y: (n), dense; scale: (1) in f32; bad: (1) i32, 1 where an element of g is infinite or NaN, else 0. y is in f32:
// f16 would lose the small gradients again that the scale has preserved. y may be g where that is in f32 as well.
// Arithmetic in f32 or better.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"
#include "ops/statistic.h"

namespace duet {

struct Unscale {
  static constexpr const char* name = "unscale";
  static constexpr const char* formula = "y[i] = g[i] / scale,  bad = any g[i] is not finite";
  static constexpr Slot g = input(0, "g"), scale = input(1, "scale"), y = output(2, "y").may_be(g),
                        bad = output(3, "bad");

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of g");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[g][0]; }
  std::vector<TensorSpec> tensors() const {
    return {g.of(dtype, {n}), scale.of(statistic_dtype(dtype), {1}, Fill::uniform(1000, 2000)),
            y.of(statistic_dtype(dtype), {n}), bad.of(DType::i32, {1})};
  }
  double flops() const { return static_cast<double>(n); }
  // The reciprocal of scale and the product with it.
  Tolerance tolerance(int slot) const {
    if (slot == bad.index) return {};
    return {.rel = gamma(2, unit_roundoff(DType::f32)), .abs = underflow(DType::f32)};
  }
  int64_t slices() const { return chunks(n) + 1; }  // the last: bad
  std::vector<int64_t> parts() const { return {chunks(n), 1}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/unscale.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one infinity, the last", "n:100003 g=last:inf"},
        {"one negative infinity, the last", "n:31 g=last:-inf"},
        {"one NaN, the last", "n:100003 g=last:nan"},
        {"edge values: nothing has overflowed", "n:1031 g=edges"},
        {"edge values, infinities and NaN", "n:1031 g=edges+inf+nan"},
        {"a scale of 0", "n:1031 scale=0"},
        {"an infinite scale", "n:1031 scale=inf"},
        {"a scale that is no number", "n:1031 scale=nan"},
    };
    return elementwise_cases(scale, odd);
  }
};

}  // namespace duet
