// SPDX-License-Identifier: Apache-2.0
// Copies a tensor. x, y: (n), dense; they do not overlap.
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

  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"three elements", "n:3"},
        {"a lane short of a warp", "n:31"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031"},
        {"several tasks, the last short", "n:100003"},
        {"edge values, infinities and NaN", "n:1031 x=edges+inf+nan"},
    };
    const Cases standard{
        {"64 MiB a tensor: beyond the caches", "n:16777216"},
        {"1 MiB a tensor: in L2 or L3", "n:262144"},
        {"4 KiB a tensor: the cost of a call", "n:1024"},
    };
    const Cases more{
        {"16 MiB a tensor", "n:4194304"},
        {"256 MiB a tensor", "n:67108864"},
        {"1 GiB a tensor", "n:268435456"},
    };
    return by_scale(scale, across(kFloatTypes, test), standard, more,  // bytes move alike in any dtype
                    sweep("n", 256, 67108864));
  }
};

}  // namespace duet
