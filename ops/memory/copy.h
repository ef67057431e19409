// SPDX-License-Identifier: Apache-2.0
// x, y: (n), dense; y does not overlap x.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/chunk.h"

namespace duet {

struct Copy {
  static constexpr const char* name = "copy";
  static constexpr const char* formula = "y[i] = x[i]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), y.of(dtype, {n})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }  // a copy is bit for bit
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/memory/copy.cpp

  static std::vector<Case<Copy>> cases(Scale scale) {
    if (scale == Scale::test)
      return across(&Copy::dtype, kFloats,
                    {{"nothing", {0}},
                     {"one element", {1}},
                     {"three elements", {3}},
                     {"a lane short of a warp", {31}},
                     {"a lane over a warp", {33}},
                     {"prime, longer than a block", {1031}},
                     {"several tasks, the last short", {100003}}});
    auto all =
        std::vector<Case<Copy>>{{"64 MiB a tensor: beyond the caches", {1 << 24}},  // bytes move alike in any dtype
                                {"1 MiB a tensor: in L2 or L3", {1 << 18}},
                                {"4 KiB a tensor: the cost of a call", {1 << 10}}};
    if (scale == Scale::full)
      all.insert(all.end(),
                 {{"16 MiB a tensor", {1 << 22}}, {"256 MiB a tensor", {1 << 26}}, {"1 GiB a tensor", {1 << 28}}});
    return all;
  }
};

}  // namespace duet
