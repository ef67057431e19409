// SPDX-License-Identifier: Apache-2.0
// Quantisation and back in one step, for training of quantised models, and its gradient by the straight-through
// estimator (arXiv:1308.3432): rounding counts as the identity, clamping passes nothing on.
//   x, y, dy, dx: (outer, c, inner) of dtype; scale: (c) f32; zero: (c) i32; row-major, dense. y may be x; dx may be x
//   or dy.
//   ops/elementwise/quantise_formula.h defines level and z for every x, scale and zero. y is a product, rounded to f32,
//   then to dtype: a scale of 0, infinity or NaN gives what the product gives.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/quantise_cases.h"
#include "ops/statistic.h"

namespace duet {

// Why lo and hi are not allowed: levels of 16 bits at most, with a sign or without, which f32 holds exactly.
inline std::string invalid_levels(int64_t lo, int64_t hi) {
  if (lo >= -32768 && lo <= hi && hi <= 65535) return "";
  return "lo and hi: -32768 <= lo <= hi <= 65535, are " + std::to_string(lo) + " and " + std::to_string(hi);
}

struct FakeQuantise {
  static constexpr const char* name = "fake_quantise";
  static constexpr const char* formula =
      "y[o,c,i] = (level - z) scale[c],  level = clamp(rne(x[o,c,i] / scale[c]) + z, lo, hi),  "
      "z = clamp(zero[c], lo, hi)";
  static constexpr Slot x = input(0, "x"), scale = input(1, "scale"), zero = input(2, "zero"),
                        y = output(3, "y").may_be(x);

  int64_t outer = 0, c = 0, inner = 1;
  int64_t lo = -128, hi = 127;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a scale and a zero point");
    field("inner", inner, "elements of a sample's channel");
    field.option("lo", lo, "smallest level");
    field.option("hi", hi, "largest level");
  }
  std::string invalid() const { return invalid_levels(lo, hi); }
  void infer(Shapes s) {
    outer = s[x][0];
    c = s[x][1];
    inner = s[x][2];
  }
  int64_t elements() const { return outer * c * inner; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {outer, c, inner}, kQuantisedFill), scale.of(statistic_dtype(dtype), {c}, kScaleFill),
            zero.of(DType::i32, {c}), y.of(dtype, {outer, c, inner})};
  }
  double flops() const { return 4.0 * static_cast<double>(elements()); }
  // As dequantise: the level is exact, the product is rounded to f32 in every implementation.
  Tolerance tolerance() const { return {.abs = dtype == DType::f16 ? 0 : underflow(dtype)}; }
  int64_t slices() const { return chunks(elements()); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/fake_quantise.cpp

  static Cases cases(Scale scale) {
    const Cases odd{{"levels of 16 bits", "outer:3 c:33 inner:7 lo:-32768 hi:65535 scale=0.00005"}};
    return quantise_cases(scale, concat({odd_quotients(), odd}));
  }
};

struct FakeQuantiseBackward {
  static constexpr const char* name = "fake_quantise_backward";
  static constexpr const char* formula =
      "dx[o,c,i] = lo <= rne(x[o,c,i] / scale[c]) + z <= hi ? dy[o,c,i] : 0,  z = clamp(zero[c], lo, hi)";
  static constexpr Slot x = input(0, "x"), scale = input(1, "scale"), zero = input(2, "zero"), dy = input(3, "dy");
  static constexpr Slot dx = output(4, "dx").may_be(x, dy);

  int64_t outer = 0, c = 0, inner = 1;
  int64_t lo = -128, hi = 127;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, dy and dx");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a scale and a zero point");
    field("inner", inner, "elements of a sample's channel");
    field.option("lo", lo, "smallest level");
    field.option("hi", hi, "largest level");
  }
  std::string invalid() const { return invalid_levels(lo, hi); }
  void infer(Shapes s) {
    outer = s[x][0];
    c = s[x][1];
    inner = s[x][2];
  }
  int64_t elements() const { return outer * c * inner; }
  std::vector<TensorSpec> tensors() const {
    const Shape shape{outer, c, inner};
    return {x.of(dtype, shape, kQuantisedFill), scale.of(statistic_dtype(dtype), {c}, kScaleFill),
            zero.of(DType::i32, {c}), dy.of(dtype, shape), dx.of(dtype, shape)};
  }
  double flops() const { return 2.0 * static_cast<double>(elements()); }
  Tolerance tolerance() const { return {.abs = underflow(dtype)}; }  // dx is dy or 0: nothing is rounded
  int64_t slices() const { return chunks(elements()); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/fake_quantise.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"infinite gradients where x is clamped", "outer:3 c:33 inner:49 x=-9..9 dy=inf"},
        {"one NaN, the last of the gradients", "outer:5 c:33 inner:7 dy=last:nan"},
    };
    return quantise_cases(scale, concat({odd_quotients(), odd}));
  }
};

}  // namespace duet
