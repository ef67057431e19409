// SPDX-License-Identifier: Apache-2.0
// Conversion to another element type: to the nearest value, ties to even, and beyond the largest finite value to
// infinity. x: (n) of dtype; y: (n) of `to`; dense; they do not overlap.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Cast {
  static constexpr const char* name = "cast";
  static constexpr const char* formula = "y[i] = x[i], rounded to nearest even";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32, to = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("n", n, "elements");
    field.option("to", to, "element type of y");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::string invalid() const {
    return is_float(dtype) && is_float(to) ? "" : "dtype and to: allowed are f64, f32, bf16, f16";
  }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, Fill::normal(0, 1)), y.of(to, {n})}; }
  double flops() const { return 0; }
  // Rounded once and correctly, subnormal f16 as well. Subnormal f32 may be flushed to zero, and so may subnormal bf16,
  // which has the same range.
  Tolerance tolerance() const { return {.abs = to == DType::f16 ? 0 : underflow(to)}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/cast.cpp

  static Cases cases(Scale scale) {
    const Words to_each{"to:f32", "to:bf16", "to:f16"};
    const Cases test{
        {"whole numbers, from 2049 on halfway between two of f16", "n:31 x=below:65536"},
        {"subnormal as f16", "n:33 x=-2e-6..2e-6"},
        {"past the largest of f16", "n:1031 x=-131072..131072"},
        {"halfway between neighbours, and beside that", "n:1031 x=halfway"},
        {"subnormals", "n:1031 x=subnormal"},
        {"edge values, infinities and NaN", "n:1031 x=edges+inf+nan"},
    };
    if (scale == Scale::test) return across(to_each, concat({elementwise_cases(scale), across(kFloatTypes, test)}));
    if (scale == Scale::sweep) return with("dtype:f32 to:bf16", elementwise_sweep(scale));
    const Cases sizes = elementwise_sizes(scale);  // of mixed precision: f32 and the halves
    return concat({across({"dtype:bf16 to:f32", "dtype:f16 to:f32"}, sizes), with("dtype:f32 to:bf16", sizes),
                   with("dtype:f32 to:f16", sizes)});
  }
};

}  // namespace duet
