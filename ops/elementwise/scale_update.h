// SPDX-License-Identifier: Apache-2.0
// The loss scale after a step (arXiv:1710.03740). bad, good: (1) i32; scale: (1) in f32, or f64. good counts the steps since
// the scale last changed; PyTorch's rule. A scale that would grow past its type's largest stays, as does one that would sink
// below the smallest normal, whose inverse unscale could not form.
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
  std::vector<TensorSpec> tensors() const {  // tests: odd intervals meet a bad step
    return {bad.of(DType::i32, {1}, Fill::constant(interval > 1 && interval % 2 == 1 ? 1 : 0)),
            scale.of(dtype, {1}, Fill::constant(interval == 9 ? underflow(DType::f32) : 65536)),
            good.of(DType::i32, {1}, Fill::constant(interval == 2000 ? 7 : interval - 1))};
  }
  double flops() const { return 1; }
  Tolerance tolerance() const { return {}; }  // powers of two
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/scale_update.cpp

  static std::vector<Case<ScaleUpdate>> cases(Scale scale) {
    if (scale == Scale::test)
      return {{"a good step", {}},
              {"the last of an interval", {DType::f32, 10}},
              {"every step", {DType::f32, 1}},
              {"a bad step", {DType::f32, 7}},
              {"a bad step at the least scale", {DType::f32, 9}}};
    return {{"PyTorch's default", {}}};
  }
};

}  // namespace duet
