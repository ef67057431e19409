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

  static std::vector<Case<Bias>> cases(Scale scale);
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

  static std::vector<Case<BiasBackward>> cases(Scale scale);
};

namespace bias_cases {  // one list: a backward pass has the shapes of its forward

template <class P>
std::vector<Case<P>> at(Scale scale) {
  if (scale == Scale::test)
    return across(&P::dtype, kFloats,
                  {{"one element", {1, 1, 1}},
                   {"no samples", {0, 7, 1}},
                   {"no channels", {3, 0, 1, Act::relu}},
                   {"empty planes", {3, 7, 0, Act::relu}},
                   {"three of each", {3, 3, 3, Act::relu}},
                   {"beside a warp", {31, 33, 1, Act::relu}},
                   {"MLP head", {32, 10, 1}},
                   {"a long row of channels", {3, 4099, 1, Act::relu}},
                   {"thin and long", {10007, 3, 1, Act::relu}},
                   {"whole packs, several tasks", {131, 256, 1}},
                   {"whole packs, several tasks, relu", {131, 256, 1, Act::relu}},
                   {"short planes: ResNet-50's last, narrowed", {5, 33, 49, Act::relu}},
                   {"planes of whole packs", {3, 5, 1024}},
                   {"planes of whole packs, relu", {3, 5, 1024, Act::relu}},
                   {"prime planes, longer than a block", {7, 3, 1031, Act::relu}},
                   {"one long plane", {1, 1, 40009}}});
  auto all = across(&P::dtype, kFloats,
                    {{"GPT-2 124M MLP, 8192 tokens, 3072 features", {8192, 3072, 1}},
                     {"ResNet-50 conv1 output, batch 32", {32, 64, 112 * 112, Act::relu}},
                     {"MLP 784-128-10, batch 32: hidden layer", {32, 128, 1, Act::relu}},
                     {"VGG-19, 512 channels of 14 x 14, batch 64", {64, 512, 14 * 14, Act::relu}}});
  if (scale == Scale::full)
    all = concat(std::move(all), across(&P::dtype, kFloats,
                                        {{"BERT-base, 16 x 384 tokens, 768 features", {16 * 384, 768, 1}},
                                         {"ResNet-50 conv1 output, batch 256", {256, 64, 112 * 112, Act::relu}},
                                         {"ResNet-50 last stage, batch 256", {256, 2048, 49, Act::relu}}}));
  return all;
}

}  // namespace bias_cases

inline std::vector<Case<Bias>> Bias::cases(Scale scale) { return bias_cases::at<Bias>(scale); }
inline std::vector<Case<BiasBackward>> BiasBackward::cases(Scale scale) { return bias_cases::at<BiasBackward>(scale); }

}  // namespace duet
