// SPDX-License-Identifier: Apache-2.0
// The gradient through a linear layer whose input is gelu(h), up to h, as in the MLP of a Transformer; and the bias
// gradient of the layer before, which computed h.
//   dy: (n, out); w: (out, in); h, dh: (n, in); dbias: (in); row-major, dense; no tensor is another.
//   The products are summed and multiplied by gelu's slope in f32 or better, before dh is rounded to dtype. Of bf16 and
//   f16 the sum may be rounded to dtype before, and the slope may come from the approximate tanh of GPUs. dbias is the
//   column sums of dh, before or after its rounding. gelu is the tanh form. Gradients are overwritten.
// In parts it is gemm (the dx of linear_backward), gelu_backward and bias_backward: each reads again what the one
// before has written, and the first two write (n, in).
#pragma once
#include "core/attributes.h"
#include "ops/elementwise/activation_cases.h"
#include "ops/gemm/product.h"

namespace duet {

struct GeluLinearBackwardData {
  static constexpr const char* name = "gelu_linear_backward_data";
  static constexpr const char* formula = "dh[i,p] = gelu'(h[i,p]) * sum_o dy[i,o] * w[o,p],  dbias[p] = sum_i dh[i,p]";
  static constexpr Slot dy = input(0, "dy"), w = input(1, "w"), h = input(2, "h");
  static constexpr Slot dh = output(3, "dh"), dbias = output(4, "dbias");

  int64_t n = 0, in = 0, out = 0;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field.option("math", math, "how f32 products are formed");
    field("n", n, "samples");
    field("in", in, "features of a sample, of which gelu is taken");
    field("out", out, "outputs of a sample");
  }
  void infer(Shapes s) {
    n = s[dy][0];
    in = s[w][1];
    out = s[w][0];
  }
  std::string invalid() const { return invalid_precision(dtype, math); }
  std::vector<TensorSpec> tensors() const {
    return {dy.of(dtype, {n, out}), w.of(dtype, {out, in}), h.of(dtype, {n, in}, kActivationFill),
            dh.of(dtype, {n, in}), dbias.of(dtype, {in})};
  }
  double flops() const { return 2.0 * n * in * out; }
  // The unit of the claims' abs_sum, which is the error before the result is rounded to dtype.
  double unit() const { return std::min(unit_roundoff(DType::f32), unit_roundoff(dtype)); }
  Tolerance tolerance() const {
    const double u = unit_roundoff(dtype);
    return {.rel = u > unit_roundoff(DType::f32) ? u : 0, .abs_sum = unit() * (1 + u), .abs = underflow(dtype)};
  }
  int64_t slices() const { return n + in; }  // a row of dh; then an element of dbias
  std::vector<int64_t> parts() const { return {n, in}; }
  void reference(Inputs given, int64_t slice, Expect& expect) const;  // cpu_ref/gemm/gelu_linear.cpp

  static Cases cases(Scale scale) {
    const Cases all_precisions{
        {"one product", "n:1 in:1 out:1"},
        {"beside a register tile", "n:17 in:65 out:33"},
        {"GPT-2's MLP, narrowed", "n:72 in:96 out:24"},
    };
    const Cases floats{
        {"no samples", "n:0 in:5 out:3"},
        {"no features", "n:3 in:0 out:5"},
        {"no outputs", "n:3 in:5 out:0"},
        {"three of each", "n:3 in:3 out:3"},
        {"one sample", "n:1 in:129 out:65"},
        {"one feature", "n:65 in:1 out:33"},
        {"one output", "n:33 in:65 out:1"},
        {"whole packs", "n:16 in:32 out:24"},
        {"thin and long", "n:1031 in:3 out:3"},
        {"over a tile each way", "n:259 in:136 out:16"},
        {"over a cache block", "n:131 in:65 out:1031"},
        {"where gelu is flat", "n:17 in:40 out:24 h=-100..100"},
        {"rows that round alike", "n:1000 in:1 out:1 dy=0.7 w=0.3 h=0.2"},
    };
    const Cases standard{
        {"GPT-2 124M 3072->768, 256 tokens", "n:256 in:3072 out:768"},
        {"GPT-2 124M 3072->768, 1024 tokens", "n:1024 in:3072 out:768"},
        {"minGPT's gpt-nano 192->48, 1024 tokens", "n:1024 in:192 out:48"},
    };
    const Cases more{
        {"GPT-2 124M 3072->768, 4 x 1024 tokens", "n:4096 in:3072 out:768"},
        {"GPT-2 124M 3072->768, 8192 tokens", "n:8192 in:3072 out:768"},
        {"GPT-2 1.5B 6400->1600, 1024 tokens", "n:1024 in:6400 out:1600"},
    };
    const Cases tf32 = with("math:tf32", {{"GPT-2 124M 3072->768, 1024 tokens", "n:1024 in:3072 out:768"}});
    return by_scale(scale, concat({across(kAllPrecisions, all_precisions), across(kFloatTypes, floats)}),
                    across(kF32AndBf16, standard), concat({across(kFloatTypes, more), tf32}),
                    sweep("n", 1, 16384, "in:3072 out:768"));
  }
};

}  // namespace duet
