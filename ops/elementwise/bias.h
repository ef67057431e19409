// SPDX-License-Identifier: Apache-2.0
// A bias for each channel, with an optional relu, and the gradients.
//   x, y, dy, dx: (outer, c, inner), row-major, dense; bias, dbias: (c). A linear layer has inner = 1, an NCHW
//   convolution has inner = h w. y may be x; dx may be dy.
//   Forward: relu is applied to the sum in f32 or better, before y is rounded.
//   Backward: with relu, g is dy where y > 0 and 0 elsewhere, and dx is g. Without it g is dy; dx would be dy itself,
//   so there is neither a y nor a dx. dbias is the sum of g over outer and inner.
// Sums are formed as ops/summation.h says; an empty sum is 0.
#pragma once
#include <cmath>
#include <string>

#include "core/problem.h"
#include "ops/act.h"
#include "ops/bounded_sum.h"
#include "ops/elementwise/bias_cases.h"
#include "ops/elementwise/chunk.h"

namespace duet {

struct Bias {
  static constexpr const char* name = "bias";
  static constexpr const char* formula = "y[o,c,i] = act(x[o,c,i] + bias[c])";
  static constexpr Slot x = input(0, "x"), bias = input(1, "bias"), y = output(2, "y").may_be(x);
  static constexpr bool exact_on_integers = true;

  int64_t outer = 0, c = 0, inner = 1;
  Act act = Act::none;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, bias and y");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a bias");
    field("inner", inner, "elements of a sample's channel");
    field.option("act", act, "activation");
  }
  std::string invalid() const { return act == Act::gelu ? "act gelu: allowed are none, relu" : ""; }
  void infer(Shapes s) {
    outer = s[x][0];
    c = s[x][1];
    inner = s[x][2];
  }
  int64_t elements() const { return outer * c * inner; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {outer, c, inner}), bias.of(dtype, {c}), y.of(dtype, {outer, c, inner})};
  }
  double flops() const { return static_cast<double>(elements()); }
  // The sum is rounded to f32, then to dtype. Cancellation loses nothing: x and bias are exact.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(elements()); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/bias.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"edge values, infinities and NaN", "outer:31 c:33 inner:1 x=edges+inf+nan"},
        {"edge values and infinities, relu", "outer:5 c:33 inner:49 act:relu x=edges+inf"},
    };
    return with_odd(scale, bias_cases(scale), odd);
  }
};

struct BiasBackward {
  static constexpr const char* name = "bias_backward";
  static constexpr const char* formula =
      "g = dy * [y > 0] (act=none: dy);  dbias[c] = sum_oi g[o,c,i];  dx = g (act=relu only)";
  static constexpr Slot dy = input(0, "dy"), dbias = output(1, "dbias");
  static constexpr Slot y = input(2, "y"), dx = output(3, "dx").may_be(dy);  // with relu
  static constexpr bool exact_on_integers = true;

  int64_t outer = 0, c = 0, inner = 1;
  Act act = Act::none;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field("outer", outer, "samples");
    field("c", c, "channels, each with a bias");
    field("inner", inner, "elements of a sample's channel");
    field.option("act", act, "activation of the forward pass");
  }
  std::string invalid() const { return act == Act::gelu ? "act gelu: allowed are none, relu" : ""; }
  void infer(Shapes s) {
    outer = s[dy][0];
    c = s[dy][1];
    inner = s[dy][2];
  }
  int64_t elements() const { return outer * c * inner; }
  // Of dy: it has both signs and a mean of half of this, so that a lost part of the sum shows. 1, or in f16 the power
  // of two for which the sum remains below 2^15.
  double scale() const {
    const double largest_sum = 0.5 * static_cast<double>(outer * inner);
    return dtype == DType::f16 && largest_sum > 32768 ? std::exp2(std::floor(std::log2(32768 / largest_sum))) : 1;
  }
  std::vector<TensorSpec> tensors() const {
    const Shape shape{outer, c, inner};
    std::vector<TensorSpec> all{dy.of(dtype, shape, Fill::uniform(-0.5 * scale(), 1.5 * scale())),
                                dbias.of(dtype, {c})};
    if (act == Act::relu) all.insert(all.end(), {y.of(dtype, shape), dx.of(dtype, shape)});
    return all;
  }
  double flops() const { return static_cast<double>(elements()); }
  // dbias: abs_sum is an error in units of u = 2^-24, that of the additions (ops/bounded_sum.h); then the sum is
  // rounded to dtype. dx is dy or 0: nothing is rounded.
  Tolerance tolerance(int slot) const {
    if (slot == dx.index) return {.abs = underflow(dtype)};
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return c; }                               // a channel
  void reference(Inputs in, int64_t channel, Expect& expect) const;  // cpu_ref/elementwise/bias.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"one infinity, the last", "outer:31 c:33 inner:1 dy=last:inf"},
        {"one NaN, the last", "outer:3 c:5 inner:1024 dy=last:nan"},
        {"zeros pass nothing on, relu", "outer:5 c:33 inner:49 act:relu y=-0"},
        {"infinite gradients where relu passes nothing on", "outer:31 c:33 inner:1 act:relu y=0 dy=inf"},
    };
    return with_odd(scale, bias_cases(scale), odd);
  }
};

}  // namespace duet
