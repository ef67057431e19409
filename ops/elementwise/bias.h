// SPDX-License-Identifier: Apache-2.0
// A bias for each channel, and its gradient. x, y, dy, dx: (outer, c, inner), row-major, dense; bias, dbias: (c). A linear
// layer has inner = 1, an NCHW convolution inner = h w. y may be x; dx may be dy. relu is applied to the sum in f32 or
// better, before y is rounded. Backward: with g = dy where y > 0 (relu; elsewhere 0) or g = dy (none), dbias sums g over
// outer and inner, and relu also gives dx = g; without it dx is dy, and neither y nor dx exists.
// Summation as in ops/summation.h; an empty sum is 0.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/act.h"
#include "ops/elementwise/chunk.h"
#include "ops/summation.h"

namespace duet {

struct Bias {
  static constexpr const char* name = "bias";
  static constexpr const char* formula = "y[o,c,i] = act(x[o,c,i] + bias[c])";
  static constexpr Slot x = input(0, "x"), bias = input(1, "bias"), y = output(2, "y");
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

  static Cases cases(Scale scale);
};

struct BiasBackward {
  static constexpr const char* name = "bias_backward";
  static constexpr const char* formula =
      "g = dy * [y > 0] (act=none: dy);  dbias[c] = sum_oi g[o,c,i];  dx = g (act=relu only)";
  static constexpr Slot dy = input(0, "dy"), dbias = output(1, "dbias");
  static constexpr Slot y = input(2, "y"), dx = output(3, "dx");  // with relu
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
  std::vector<TensorSpec> tensors() const {  // dy: both signs, yet the sum grows with every term: a lost part shows
    const Shape shape{outer, c, inner};
    std::vector<TensorSpec> all{dy.of(dtype, shape, Fill::uniform(-0.5, 1.5)), dbias.of(dtype, {c})};
    if (act == Act::relu) all.insert(all.end(), {y.of(dtype, shape), dx.of(dtype, shape)});
    return all;
  }
  double flops() const { return static_cast<double>(elements()); }
  // dbias: each addition rounds to f32, then the sum to dtype. dx is a choice, no rounding.
  Tolerance tolerance(int slot) const {
    if (slot == dx.index) return {.abs = underflow(dtype)};
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(additions(outer * inner), unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return c; }                               // a channel
  void reference(Inputs in, int64_t channel, Expect& expect) const;  // cpu_ref/elementwise/bias.cpp

  static Cases cases(Scale scale);
};

inline Cases Bias::cases(Scale scale) {
  const Cases test{
      {"one element", "outer:1 c:1 inner:1"},
      {"no samples", "outer:0 c:7 inner:1"},
      {"no channels", "outer:3 c:0 inner:1 act:relu"},
      {"empty planes", "outer:3 c:7 inner:0 act:relu"},
      {"three of each", "outer:3 c:3 inner:3 act:relu"},
      {"beside a warp", "outer:31 c:33 inner:1 act:relu"},
      {"MLP head", "outer:32 c:10 inner:1"},
      {"a long row of channels", "outer:3 c:4099 inner:1 act:relu"},
      {"thin and long", "outer:10007 c:3 inner:1 act:relu"},
      {"whole packs, several tasks", "outer:131 c:256 inner:1"},
      {"whole packs, several tasks, relu", "outer:131 c:256 inner:1 act:relu"},
      {"short planes: ResNet-50's last, narrowed", "outer:5 c:33 inner:49 act:relu"},
      {"planes of whole packs", "outer:3 c:5 inner:1024"},
      {"planes of whole packs, relu", "outer:3 c:5 inner:1024 act:relu"},
      {"prime planes, longer than a block", "outer:7 c:3 inner:1031 act:relu"},
      {"one long plane", "outer:1 c:1 inner:40009"},
  };
  const Cases standard{
      {"GPT-2 124M MLP, 8192 tokens, 3072 features", "outer:8192 c:3072 inner:1"},
      {"ResNet-50 conv1 output, batch 32", "outer:32 c:64 inner:12544 act:relu"},
      {"MLP 784-128-10, batch 32: hidden layer", "outer:32 c:128 inner:1 act:relu"},
      {"VGG-19, 512 channels of 14 x 14, batch 64", "outer:64 c:512 inner:196 act:relu"},
  };
  const Cases more{
      {"BERT-base, 16 x 384 tokens, 768 features", "outer:6144 c:768 inner:1"},
      {"ResNet-50 conv1 output, batch 256", "outer:256 c:64 inner:12544 act:relu"},
      {"ResNet-50 last stage, batch 256", "outer:256 c:2048 inner:49 act:relu"},
  };
  return across(kFloatTypes, by_scale(scale, test, standard, more));
}
inline Cases BiasBackward::cases(Scale scale) { return Bias::cases(scale); }

}  // namespace duet
