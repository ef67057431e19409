// SPDX-License-Identifier: Apache-2.0
// The elementwise sum, such as a residual connection, with the activation behind it. a, b, c: (n), dense; c may be a or
// b. Arithmetic in f32 or better. What relu gives for NaN is undefined, because libraries differ.
#pragma once
#include "core/problem.h"
#include "ops/act.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Add {
  static constexpr const char* name = "add";
  static constexpr const char* formula = "c[i] = act(a[i] + b[i])";
  static constexpr Slot a = input(0, "a"), b = input(1, "b"), c = output(2, "c").may_be(a, b);
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;
  Act act = Act::none;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of a, b and c");
    field("n", n, "elements");
    field.option("act", act, "activation: none or relu");
  }
  std::string invalid() const { return act == Act::gelu ? "act gelu: allowed are none and relu" : ""; }
  void infer(Shapes s) { n = s[a][0]; }
  std::vector<TensorSpec> tensors() const { return {a.of(dtype, {n}), b.of(dtype, {n}), c.of(dtype, {n})}; }
  double flops() const { return static_cast<double>(n); }
  // The sum is rounded to f32, then to dtype. Cancellation loses nothing: a and b are exact. relu enlarges no error.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/add.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"edge values, infinities and NaN", "n:1031 a=edges+inf+nan"},
        {"infinities of both signs", "n:33 a=inf b=-inf"},
        {"relu, one element", "n:1 act:relu"},
        {"relu, prime, longer than a block", "n:1031 act:relu"},
        {"relu, several tasks, the last short", "n:100003 act:relu"},
    };
    return elementwise_cases(scale, odd);
  }
};

}  // namespace duet
