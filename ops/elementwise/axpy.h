// SPDX-License-Identifier: Apache-2.0
// Adds a multiple of x to y in place, BLAS's axpy. x, y: (n), dense; they do not overlap. alpha is rounded to f32.
// Arithmetic in f32 or better. alpha = 0 leaves y as it is, also where x is infinite or NaN, as in BLAS.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Axpy {
  static constexpr const char* name = "axpy";
  static constexpr const char* formula = "y[i] += alpha x[i]";
  static constexpr Slot x = input(0, "x"), y = inout(1, "y");
  static constexpr bool exact_on_integers = true;  // in the test cases alpha is a small whole number or a half

  int64_t n = 0;
  DType dtype = DType::f32;
  double alpha = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("alpha", alpha, "factor of x");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), y.of(dtype, {n})}; }
  double flops() const { return 2.0 * static_cast<double>(n); }
  // abs_sum is an error in units of u = 2^-24: that of the product alpha x, which is not rounded where alpha is a power
  // of two. The sum is rounded to f32, then to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/axpy.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"another factor", "n:1031 alpha:3"},
        {"a negative factor", "n:1031 alpha:-0.5"},
        {"a factor of zero", "n:33 alpha:0"},
        {"a factor of zero leaves y", "n:33 alpha:0 x=inf"},
        {"a factor that is zero in f32", "n:33 alpha:1e-60 x=inf"},
        {"edge values, infinities and NaN", "n:1031 x=edges+inf+nan"},
        {"infinities of both signs", "n:33 x=inf y=-inf"},
    };
    return concat({elementwise_cases(scale, odd), elementwise_sweep(scale)});
  }
};

}  // namespace duet
