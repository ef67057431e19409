// SPDX-License-Identifier: Apache-2.0
// A linear layer of 8-bit integers, as inference runs it: symmetric quantisation, one scale for x, one for each row of
// w. x: (n, in) and w: (out, in) in i8; scale_x: (1), scale_w: (out), both f32; bias: (out), y: (n, out); all row-major
// and dense. Sums are formed in i32 and are exact, in any order: `in` is limited so that they cannot overflow. Only
// then are they scaled, in f32: by scale_x, whose product with the sum must not overflow (it does not for scale_x below
// 2^97), then by scale_w. A scale is a factor and nothing else: 0 leaves the bias, NaN gives NaN.
#pragma once
#include <cmath>
#include <functional>

#include "core/attributes.h"
#include "core/problem.h"
#include "ops/gemm/product.h"

namespace duet {

struct LinearInt8 {
  static constexpr const char* name = "linear_int8";
  static constexpr const char* formula = "y[i,o] = (sum_p x[i,p] * w[o,p]) * scale_x * scale_w[o] + bias[o]";
  static constexpr Slot x = input(0, "x"), w = input(1, "w"), scale_x = input(2, "scale_x");
  static constexpr Slot scale_w = input(3, "scale_w"), bias = input(4, "bias"), y = output(5, "y");
  static constexpr int64_t kMaxIn = INT32_MAX / (128 * 128);  // 131071: |i8 * i8| <= 2^14

  int64_t n = 0, in = 0, out = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of bias and y; x and w are i8");
    field("n", n, "samples");
    field("in", in, "features of a sample");
    field("out", out, "outputs of a sample");
  }
  void infer(Shapes s) {
    n = s[x][0];
    in = s[x][1];
    out = s[w][0];
  }
  std::string invalid() const {
    if (in > kMaxIn) return "in " + std::to_string(in) + ": at most " + std::to_string(kMaxIn) + ", sums are i32";
    return invalid_precision(dtype, Math::ieee);
  }
  // Scales as of data whose result is about 1: i8 that are drawn evenly have a root mean square of 74, their products
  // of 74^2.
  std::vector<TensorSpec> tensors() const {
    const double unit = 1 / (0.02 * 74 * 74 * std::sqrt(static_cast<double>(std::max<int64_t>(1, in))));
    return {x.of(DType::i8, {n, in}),
            w.of(DType::i8, {out, in}),
            scale_x.of(DType::f32, {1}, Fill::uniform(0.015, 0.025)),
            scale_w.of(DType::f32, {out}, Fill::uniform(0.75 * unit, 1.25 * unit)),
            bias.of(dtype, {out}),
            y.of(dtype, {n, out})};
  }
  // x and w: all values of an i8. A Fill draws small whole numbers.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != x.index && slot != w.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(static_cast<int8_t>(bits >> 24)); };
  }
  double flops() const { return 2.0 * n * in * out; }
  // The claim's abs_sum is |y - bias|: three roundings, of the sum to f32 and of two products. Then the bias is added.
  Tolerance tolerance() const {
    const double u = unit_roundoff(DType::f32), u_out = unit_roundoff(dtype);
    return {.rel = u + (u_out > u ? u_out : 0), .abs_sum = gamma(3, u) * (1 + u_out), .abs = underflow(dtype)};
  }
  int64_t slices() const { return n; }                            // a row of y
  void reference(Inputs in_, int64_t row, Expect& expect) const;  // cpu_ref/gemm/linear_int8.cpp

  static Cases cases(Scale scale) {
    const Cases floats{
        {"one product", "n:1 in:1 out:1"},
        {"no features: the bias alone", "n:3 in:0 out:5"},
        {"beside a register tile", "n:17 in:65 out:33"},
        {"few samples, whole packs", "n:4 in:256 out:32"},
    };
    const Cases test{
        {"no samples", "n:0 in:3 out:5"},
        {"no outputs", "n:3 in:5 out:0"},
        {"three of each", "n:3 in:3 out:3"},
        {"one sample", "n:1 in:131 out:65"},
        {"whole packs", "n:24 in:64 out:64"},
        {"beside a tile of k", "n:33 in:80 out:40"},
        {"over a block of rows", "n:131 in:32 out:130"},
        {"sums beyond 24 bits", "n:5 in:5003 out:7"},
        {"scales whose product is subnormal", "n:5 in:68 out:36 scale_x=1e-20 scale_w=1e-21 bias=0"},
        {"scales whose product overflows", "n:4 in:0 out:4 scale_x=1e30 scale_w=1e10"},
        {"scales whose product overflows, sums of 0", "n:4 in:4 out:4 x=0 scale_x=1e30 scale_w=1e10"},
        {"scales of 0, infinity and NaN", "n:5 in:68 out:37 scale_w=edges+inf+nan"},
    };
    const Cases standard{
        {"BERT-base 768->3072, 384 tokens", "n:384 in:768 out:3072"},
        {"BERT-base 3072->768, 384 tokens", "n:384 in:3072 out:768"},
        {"MLP 784-128, batch 512", "n:512 in:784 out:128"},
        {"Llama-3-8B 4096->4096, one token", "n:1 in:4096 out:4096"},
        {"BERT-large 1024->4096, 384 tokens", "n:384 in:1024 out:4096"},
    };
    const Cases more{
        {"BERT-large 4096->1024, 384 tokens", "n:384 in:4096 out:1024"},
        {"GPT-2 124M 768->3072, 8192 tokens", "n:8192 in:768 out:3072"},
        {"GPT-2 124M vocabulary, 1024 tokens", "n:1024 in:768 out:50257"},
        {"Llama-3-8B 4096->6144, 512 tokens", "n:512 in:4096 out:6144"},
        {"Llama-3-8B 14336->4096, 512 tokens", "n:512 in:14336 out:4096"},
        {"Llama-3-8B 4096->28672, one token", "n:1 in:4096 out:28672"},
    };
    return by_scale(scale, concat({across(kFloatTypes, floats), test}), across(kF32AndBf16, standard),
                    across(kFloatTypes, more), sweep("n", 1, 16384, "in:768 out:3072"));
  }
};

}  // namespace duet
