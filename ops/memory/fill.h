// SPDX-License-Identifier: Apache-2.0
// y: (n), dense; every element is `value` rounded to dtype.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/chunk.h"

namespace duet {

struct FillValue {
  static constexpr const char* name = "fill";
  static constexpr const char* formula = "y[i] = value";
  static constexpr Slot y = output(0, "y");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;
  double value = 0;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y");
    field("n", n, "elements");
    field.option("value", value, "of every element");
  }
  void infer(Shapes) {}
  std::vector<TensorSpec> tensors() const { return {y.of(dtype, {n})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }  // rounded once
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/memory/fill.cpp

  static std::vector<Case<FillValue>> cases(Scale scale) {
    if (scale == Scale::test)
      return across(&FillValue::dtype, kFloats,
                    {{"nothing", {0}},
                     {"one element", {1}},
                     {"three elements", {3, DType::f32, -1.5}},
                     {"a lane short of a warp", {31, DType::f32, 0.1}},
                     {"a lane over a warp", {33}},
                     {"prime, longer than a block", {1031, DType::f32, 0.1}},
                     {"several tasks, the last short", {100003, DType::f32, -1.5}},
                     {"several tasks, zero", {100003}}});
    std::vector<Case<FillValue>> all{{"64 MiB: beyond the caches", {1 << 24}},  // bytes move alike in any dtype
                                     {"64 MiB of ones", {1 << 24, DType::f32, 1}},
                                     {"1 MiB: in L2 or L3", {1 << 18}},
                                     {"4 KiB: the cost of a call", {1 << 10}}};
    if (scale == Scale::full) all.insert(all.end(), {{"256 MiB", {1 << 26}}, {"1 GiB", {1 << 28}}});
    return all;
  }
};

}  // namespace duet
