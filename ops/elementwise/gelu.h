// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit (arXiv:1606.08415), with erf or in its tanh approximation. x, y, dy, dx: (n), dense; y
// may be x, dx may be x or dy. Arithmetic in f32 or better.
// The error bound is relative to |x| / 2 (1 + |tanh|) and not to y: where x is negative, 1 + tanh cancels in the usual
// way to compute it.
#pragma once
#include <string>
#include <vector>

#include "core/problem.h"
#include "ops/elementwise/activation_cases.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/gelu_formula.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

enum class GeluForm : uint8_t { tanh, erf };
inline std::vector<std::string> names_of(GeluForm) { return {"tanh", "erf"}; }

struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr const char* formula =
      "form=tanh: y[i] = x[i] / 2 (1 + tanh(sqrt(2 / pi) (x[i] + 0.044715 x[i]^3)));  "
      "form=erf: y[i] = x[i] / 2 (1 + erf(x[i] / sqrt(2)))";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);

  int64_t n = 0;
  DType dtype = DType::f32;
  GeluForm form = GeluForm::tanh;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("form", form, "tanh approximation or erf");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, kActivationFill), y.of(dtype, {n})}; }
  double flops() const { return (form == GeluForm::tanh ? 9.0 : 5.0) * n; }
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype),
            .abs_sum = duet::gamma(gelu::kFormRoundings, unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/gelu.cpp

  static Cases cases(Scale scale);
};

struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  static constexpr const char* formula = "dx[i] = dy[i] gelu'(x[i])";
  static constexpr Slot x = input(0, "x"), dy = input(1, "dy"), dx = output(2, "dx").may_be(x, dy);

  int64_t n = 0;
  DType dtype = DType::f32;
  GeluForm form = GeluForm::tanh;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, dy and dx");
    field("n", n, "elements");
    field.option("form", form, "tanh approximation or erf");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n}, kActivationFill), dy.of(dtype, {n}), dx.of(dtype, {n})};
  }
  double flops() const { return (form == GeluForm::tanh ? 18.0 : 10.0) * n; }
  // abs_sum is an error in units of u = 2^-24: gelu::slope_error.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = unit_roundoff(DType::f32), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/gelu.cpp

  static Cases cases(Scale scale);
};

// In the tanh form `all`; in the erf form its tests, and one published shape.
inline Cases in_both_forms(Scale scale, const Cases& all) {
  const Cases published = across(kFloatTypes, {{"BERT-base MLP, 16 x 384 tokens", "n:18874368"}});  // 16 x 384 x 3072
  return concat({all, with("form:erf", by_scale(scale, all, published))});
}
inline Cases Gelu::cases(Scale scale) {
  return in_both_forms(scale, activation_cases(scale, {{"edge values", "n:1031 x=edges"}}));
}
inline Cases GeluBackward::cases(Scale scale) {
  return in_both_forms(scale, activation_cases(scale, {{"edge values", "n:1031 x=edges"}}));
}

}  // namespace duet
