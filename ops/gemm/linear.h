// SPDX-License-Identifier: Apache-2.0
// A fully connected layer and its gradients.
//   x: (n, in); w: (out, in); bias: (out); y: (n, out); row-major, dense; no tensor is another.
//   Forward: bias and activation are applied to the sum in f32 or better, before y is rounded to dtype. Of bf16 and f16
//   the sum may be rounded to dtype before the bias is added, as by cuBLASLt. gelu is the tanh form; with it there is a
//   further output, pre (n, out): what gelu was applied to, rounded to dtype.
//   Backward: g is dy where y > 0 and 0 elsewhere (relu), dy gelu'(pre), rounded to dtype (gelu), or dy (none).
//   dx = g w, dw = g' x, dbias is the column sums of g. Gradients are overwritten. Without an activation y is not read;
//   with gelu, pre takes the place of y.
#pragma once
#include "core/attributes.h"
#include "ops/act.h"
#include "ops/elementwise/gelu_formula.h"
#include "ops/gemm/linear_cases.h"
#include "ops/gemm/product.h"

namespace duet {

struct Linear {
  static constexpr const char* name = "linear";
  static constexpr const char* formula = "y[i,o] = act(sum_p x[i,p] * w[o,p] + bias[o]);  act=gelu: pre, without act";
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), bias = input(2, "bias"), y = output(3, "y");
  static constexpr Slot pre = output(4, "pre");  // with gelu
  static constexpr bool exact_on_integers = true;

  int64_t n = 0, in = 0, out = 0;
  Act act = Act::none;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field.option("math", math, "how f32 products are formed");
    field("n", n, "samples");
    field("in", in, "features of a sample");
    field("out", out, "outputs of a sample");
    field.option("act", act, "activation");
  }
  void infer(Shapes s) {
    n = s[x][0];
    in = s[x][1];
    out = s[w][0];
  }
  std::string invalid() const { return invalid_precision(dtype, math); }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, {n, in}), w.of(dtype, {out, in}), bias.of(dtype, {out}),
                                y.of(dtype, {n, out})};
    if (act == Act::gelu) all.push_back(pre.of(dtype, {n, out}));
    return all;
  }
  double flops() const { return 2.0 * n * in * out; }
  // 1: the bias. relu enlarges no error. gelu's slope is at most 1.13, and its own roundings are relative to the sum;
  // its claim's abs_sum is root_sum + |sum|, and of halves what an approximate tanh adds. Each claim's abs_sum also has
  // the rounding of the product.
  static constexpr double kMaxGeluSlope = 1.13;
  Tolerance tolerance(int slot) const {
    Tolerance t = product_sum_tolerance(in, 1, dtype, math, kDirect);
    if (act == Act::gelu && slot == y.index) {
      const SumError of_pre = product_error(static_cast<double>(in), 1, dtype, math, kDirect);
      t.abs_sum = kMaxGeluSlope * std::max(of_pre.rel, of_pre.root_sum) +
                  duet::gamma(gelu::kFormRoundings, unit_roundoff(DType::f32));
      t.abs_sum *= 1 + unit_roundoff(dtype);
      t.rel = unit_roundoff(dtype);
    }
    return t;
  }
  std::optional<LinearAxis> linear_axis() const {
    if (act != Act::none) return std::nullopt;
    return LinearAxis{"out", out, 1, {{w, 0}, {bias, 0}, {y, 1}}};
  }
  int64_t slices() const { return n; }                            // a row of y
  void reference(Inputs in_, int64_t row, Expect& expect) const;  // cpu_ref/gemm/linear.cpp

  static Cases cases(Scale scale) { return linear_cases(scale); }
};

struct LinearBackward {
  static constexpr const char* name = "linear_backward";
  static constexpr const char* formula =
      "g = dy * [y > 0] (act=none: dy; gelu: dy * gelu'(pre));  dx[i,p] = sum_o g[i,o] * w[o,p],  dw[o,p] = sum_i "
      "g[i,o] * x[i,p],  "
      "dbias[o] = sum_i g[i,o]";
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), y = input(2, "y"), dy = input(3, "dy");
  static constexpr Slot pre = input(2, "pre");  // with gelu, for y
  static constexpr Slot dx = output(4, "dx"), dw = output(5, "dw"), dbias = output(6, "dbias");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0, in = 0, out = 0;
  Act act = Act::none;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field.option("math", math, "how f32 products are formed");
    field("n", n, "samples");
    field("in", in, "features of a sample");
    field("out", out, "outputs of a sample");
    field.option("act", act, "activation of the forward pass");
  }
  void infer(Shapes s) {
    n = s[x][0];
    in = s[x][1];
    out = s[w][0];
  }
  std::string invalid() const { return invalid_precision(dtype, math); }
  std::vector<TensorSpec> tensors() const {
    const TensorSpec gate = act == Act::gelu ? pre.of(dtype, {n, out}, Fill::normal(0, 2))
                                             : y.of(dtype, {n, out}).touching(act == Act::none ? 0 : n * out);
    return {x.of(dtype, {n, in}),    w.of(dtype, {out, in}), gate, dy.of(dtype, {n, out}), dx.of(dtype, {n, in}),
            dw.of(dtype, {out, in}), dbias.of(dtype, {out})};
  }
  double flops() const { return 4.0 * n * in * out; }
  // dx is a sum over outputs, dw and dbias are sums over samples. relu's mask is exact. With gelu every term has a
  // factor with the roundings of gelu's slope and one to dtype, independent of those of other terms. dbias may be
  // computed on matrix units as well, as products with 1.
  Tolerance tolerance(int slot) const {
    const auto terms = static_cast<double>(slot == dx.index ? out : n);
    Tolerance t = product_sum_tolerance(terms, 0, dtype, math, kDirect);
    if (slot == dbias.index) {  // of its two factors one is 1, which TF32 holds
      t.rel -= 2 * unit_roundoff(math);
      t.abs_sum -= 3 * unit_roundoff(math);
    }
    if (act == Act::gelu)
      t.abs_sum += (duet::gamma(gelu::kSlopeRoundings, unit_roundoff(DType::f32)) + unit_roundoff(dtype)) *
                   std::min(std::sqrt(terms), kDeviations / std::sqrt(3.0)) * (1 + t.abs_sum);
    return t;
  }
  int64_t slices() const { return n + out; }  // a row of dx; then a row of dw and its dbias
  std::vector<int64_t> parts() const { return {n, out}; }
  std::optional<LinearAxis> linear_axis() const { return LinearAxis{"in", in, 1, {{x, 1}, {w, 1}, {dx, 1}, {dw, 1}}}; }
  void reference(Inputs in_, int64_t slice, Expect& expect) const;  // cpu_ref/gemm/linear.cpp

  static Cases cases(Scale scale) { return linear_cases(scale); }
};

}  // namespace duet
