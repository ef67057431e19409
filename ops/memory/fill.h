// SPDX-License-Identifier: Apache-2.0
// Sets every element to `value`, rounded to dtype. y: (n), dense.
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
  std::vector<TensorSpec> tensors() const { return {y.of(dtype, {n}, Fill::constant(value))}; }  // what it leaves in y
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }  // rounded once
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/memory/fill.cpp

  // A timed fill of zeros finds those of the application before. Some CPUs do that with less traffic than other values
  // (bench/cpu_bandwidth.cpp), so one case has another value.
  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"three elements", "n:3 value:-1.5"},
        {"a lane short of a warp", "n:31 value:0.1"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031 value:0.1"},
        {"several tasks, the last short", "n:100003 value:-1.5"},
        {"several tasks, zero", "n:100003"},
    };
    const Cases standard{
        {"64 MiB: beyond the caches", "n:16777216"},
        {"64 MiB of ones", "n:16777216 value:1"},
        {"1 MiB: in L2 or L3", "n:262144"},
        {"4 KiB: the cost of a call", "n:1024"},
    };
    const Cases more{
        {"256 MiB", "n:67108864"},
        {"1 GiB", "n:268435456"},
    };
    return by_scale(scale, across(kFloatTypes, test), standard, more);  // bytes move alike in any dtype
  }
};

}  // namespace duet
