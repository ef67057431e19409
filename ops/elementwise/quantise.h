// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits with a scale and a zero point for each channel, and back: arXiv:1712.05877.
//   x: (outer, c, inner) of dtype; q: the same of i8; scale: (c) f32; zero: (c) i32; row-major, dense; no two overlap.
//   One scale for a whole tensor is c = 1; the rows of a weight are outer = 1, an NCHW tensor has inner = h w.
//   quantise: ops/elementwise/quantise_formula.h defines q for every x, scale and zero.
//   dequantise: a zero point outside [-128, 127] counts as the nearer end. The product is rounded to f32, then to
//   dtype; a scale of 0, infinity or NaN gives what the product gives.
#pragma once
#include <functional>
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/quantise_cases.h"
#include "ops/statistic.h"

namespace duet {

struct Quantise {
  static constexpr const char* name = "quantise";
  static constexpr const char* formula =
      "q[o,c,i] = clamp(rne(x[o,c,i] / scale[c]) + z, lo, hi),  z = clamp(zero[c], lo, hi)";
  static constexpr Slot x = input(0, "x"), scale = input(1, "scale"), zero = input(2, "zero"), q = output(3, "q");

  int64_t outer = 0, c = 0, inner = 1;
  int64_t lo = -128, hi = 127;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a scale and a zero point");
    field("inner", inner, "elements of a sample's channel");
    field.option("lo", lo, "smallest level, from -128 on");
    field.option("hi", hi, "largest level, up to 127");
  }
  std::string invalid() const {
    if (lo >= -128 && lo <= hi && hi <= 127) return "";
    return "lo and hi: -128 <= lo <= hi <= 127, are " + std::to_string(lo) + " and " + std::to_string(hi);
  }
  void infer(Shapes s) {
    outer = s[x][0];
    c = s[x][1];
    inner = s[x][2];
  }
  int64_t elements() const { return outer * c * inner; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {outer, c, inner}, kQuantisedFill), scale.of(statistic_dtype(dtype), {c}, kScaleFill),
            zero.of(DType::i32, {c}), q.of(DType::i8, {outer, c, inner})};
  }
  double flops() const { return 2.0 * static_cast<double>(elements()); }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(elements()); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/quantise.cpp

  static Cases cases(Scale scale) { return quantise_cases(scale, odd_quotients()); }
};

struct Dequantise {
  static constexpr const char* name = "dequantise";
  static constexpr const char* formula = "x[o,c,i] = (q[o,c,i] - z) scale[c],  z = clamp(zero[c], -128, 127)";
  static constexpr Slot q = input(0, "q"), scale = input(1, "scale"), zero = input(2, "zero"), x = output(3, "x");

  int64_t outer = 0, c = 0, inner = 1;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a scale and a zero point");
    field("inner", inner, "elements of a sample's channel");
  }
  void infer(Shapes s) {
    outer = s[q][0];
    c = s[q][1];
    inner = s[q][2];
  }
  int64_t elements() const { return outer * c * inner; }
  std::vector<TensorSpec> tensors() const {
    return {q.of(DType::i8, {outer, c, inner}), scale.of(statistic_dtype(dtype), {c}, kScaleFill),
            zero.of(DType::i32, {c}), x.of(dtype, {outer, c, inner})};
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {  // q: every level is equally likely
    if (slot != q.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(bits >> 24) - 128; };
  }
  double flops() const { return 2.0 * static_cast<double>(elements()); }
  // The difference is exact and the product rounded to f32 in every implementation; subnormal products may be 0. In f16
  // they are 0 anyway.
  Tolerance tolerance() const { return {.abs = dtype == DType::f16 ? 0 : underflow(dtype)}; }
  int64_t slices() const { return chunks(elements()); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/quantise.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"a scale of zero", "outer:3 c:5 inner:33 scale=0"},
        {"a negative scale", "outer:3 c:5 inner:33 scale=-0.02"},
        {"a scale of NaN, the last", "outer:3 c:33 inner:1 scale=last:nan"},
        {"an infinite scale", "outer:3 c:5 inner:33 scale=inf"},
        {"past the largest of f16", "outer:3 c:5 inner:33 scale=normal:0:1000"},
        {"zero points beyond 127", "outer:3 c:33 inner:7 zero=below:1000"},
        {"zero points beyond -128", "outer:3 c:33 inner:1 zero=-2147483648"},
    };
    return quantise_cases(scale, odd);
  }
};

}  // namespace duet
