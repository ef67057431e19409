// SPDX-License-Identifier: Apache-2.0
// A convolution with its bias and activation: what inference runs once batchnorm is folded into the filter. x, w, y,
// layouts and attributes are those of conv2d.h; bias: (k). Bias and activation are applied to the sum in f32 or better,
// before y is rounded to dtype. y is overwritten and is no other tensor. What relu gives for NaN is undefined, because
// libraries differ.
#pragma once
#include <optional>

#include "ops/act.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/conv2d_bias_cases.h"

namespace duet {

// What distinguishes conv2d_bias from conv2d, for code that serves both: x and w are the same slots.
struct Conv2dLayer {
  Slot y;
  std::optional<Slot> bias = {};
  bool relu = false;
};
inline constexpr Conv2dLayer kPlainConv2d{.y = Conv2d::y};

struct Conv2dBias {
  static constexpr const char* name = "conv2d_bias";
  static constexpr const char* formula =
      "y[n,k,i,j] = act(sum_{c,r,s} x[n, c, i*stride_h - pad_h + r*dil_h, j*stride_w - pad_w + s*dil_w] * w[k,c,r,s] + "
      "bias[k])";
  static constexpr Slot x = Conv2d::x, filter = Conv2d::filter, bias = input(2, "bias"), y = output(3, "y");
  static constexpr bool exact_on_integers = true;

  Conv2d conv;
  Act act = Act::none;

  void attributes(auto&& field) {
    conv.attributes(field);
    field.option("act", act, "activation: none or relu");
  }
  void infer(Shapes shapes) { conv.infer(shapes); }
  std::string invalid() const {
    if (act == Act::gelu) return "act gelu: allowed are none and relu";
    return conv.invalid();
  }
  std::vector<TensorSpec> tensors() const {
    const auto of = conv.tensors();
    return {of[0], of[1], bias.of(conv.dtype, {conv.k}), y.of(conv.dtype, of[2].shape)};
  }
  Conv2dLayer layer() const { return {.y = y, .bias = bias, .relu = act == Act::relu}; }
  double flops() const { return conv.flops(); }
  Tolerance tolerance() const {  // 1: the bias. relu enlarges no error
    return product_sum_tolerance(1.0 * conv.group_c() * conv.r * conv.s, 1, conv.dtype, conv.math, conv.growth());
  }
  std::optional<LinearAxis> linear_axis() const {
    if (act != Act::none) return std::nullopt;
    return LinearAxis{"k", conv.group_k(), conv.groups, {{filter, 0}, {bias, 0}, {y, conv.channel_axis()}}};
  }
  int64_t slices() const { return conv.slices(); }                 // one row of one output channel
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/conv/conv2d.cpp

  static Cases cases(Scale scale) { return conv2d_bias_cases(scale); }
};

}  // namespace duet
