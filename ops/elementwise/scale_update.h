// SPDX-License-Identifier: Apache-2.0
// Updates the loss scale of mixed-precision training after a step (arXiv:1710.03740), by PyTorch's rule.
// bad, good: (1) i32; scale: (1) in f32, or f64. good counts the steps since the scale last changed. A scale stays as
// it is where it would exceed the largest finite value of its type, or fall below the smallest normal one, of which
// unscale could not form the inverse.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/statistic.h"

namespace duet {

struct ScaleUpdate {
  static constexpr const char* name = "scale_update";
  static constexpr const char* formula =
      "bad: scale = scale / 2, good = 0;  else: good = good + 1, and at good = interval: scale = 2 scale, good = 0";
  static constexpr Slot bad = input(0, "bad"), scale = inout(1, "scale"), good = inout(2, "good");
  static constexpr bool exact_on_integers = true;

  DType dtype = DType::f32;
  int64_t interval = 2000;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of scale: f32, or f64");
    field.option("interval", interval, "good steps in a row after which the scale doubles");
  }
  std::string invalid() const {
    if (dtype != DType::f32 && dtype != DType::f64) return "dtype: allowed are f64, f32";
    return interval >= 1 && interval <= INT32_MAX
               ? ""
               : "interval must lie in 1 to 2^31 - 1, is " + std::to_string(interval);
  }
  void infer(Shapes) {}
  std::vector<TensorSpec> tensors() const {
    return {bad.of(DType::i32, {1}, Fill::constant(0)), scale.of(dtype, {1}, Fill::constant(65536)),
            good.of(DType::i32, {1}, Fill::constant(7))};
  }
  double flops() const { return 1; }
  Tolerance tolerance() const { return {}; }  // powers of two
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/scale_update.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"a good step", ""},
        {"the last of an interval", "interval:10 good=9"},
        {"every step", "interval:1 good=0"},
        {"a bad step", "bad=1"},
        {"a bad step at the smallest scale", "bad=1 scale=1.1754943508222875e-38"},
        {"a good step at the largest scale", "interval:1 good=0 scale=1.7014118346046923e38"},
    };
    return by_scale(scale, test, {{"PyTorch's default", ""}});
  }
};

}  // namespace duet
