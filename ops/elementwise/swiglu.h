// SPDX-License-Identifier: Apache-2.0
// SwiGLU (arXiv:2002.05202), the gate of the MLP in Llama and others: silu(gate) up, where silu(v) = v sigmoid(v).
//   gate, up, y, dy, dgate, dup: (n), dense. y may be gate or up; dgate may be gate or dy, dup may be up.
//   Arithmetic in f32 or better.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/elementwise/activation_cases.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

// The sizes of all elementwise ops, the curve of silu in all its parts, and two published shapes; `odd`: further tests.
inline Cases swiglu_cases(Scale scale, const Cases& odd) {
  const Cases curve{
      {"where the curve is flat, past the range of exp in f32", "n:1031 gate=-100..100"},
      {"one NaN, the last", "n:1031 gate=last:nan"},
  };
  const Cases published{
      {"Llama 2 7B MLP, 256 tokens", "n:2818048"},  // 256 x 11008
      {"Qwen3 8B MLP, 256 tokens", "n:3145728"},    // 256 x 12288
  };
  return concat(
      {with_odd(scale, elementwise_cases(scale, curve), odd), by_scale(scale, {}, across(kFloatTypes, published))});
}

struct SwiGlu {
  static constexpr const char* name = "swiglu";
  static constexpr const char* formula = "y[i] = gate[i] / (1 + exp(-gate[i])) up[i]";
  static constexpr Slot gate = input(0, "gate"), up = input(1, "up"), y = output(2, "y").may_be(gate, up);

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of gate, up and y");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[gate][0]; }
  std::vector<TensorSpec> tensors() const {
    return {gate.of(dtype, {n}, kActivationFill), up.of(dtype, {n}), y.of(dtype, {n})};
  }
  double flops() const { return 5.0 * n; }

  // abs_sum is an error in units of u = 2^-24: an exp of 2 ulp = 4u, an addition, a division and a product, 7 roundings
  // of y; where the sigmoid is below the smallest normal number it may become 0. Then y is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/swiglu.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"large values of up", "n:1031 up=-100..100"},
        {"infinity", "n:33 up=inf"},
    };
    return swiglu_cases(scale, odd);
  }
};

struct SwiGluBackward {
  static constexpr const char* name = "swiglu_backward";
  static constexpr const char* formula =
      "s[i] = 1 / (1 + exp(-gate[i])),  dgate[i] = dy[i] up[i] s[i] (1 + gate[i] (1 - s[i])),  "
      "dup[i] = dy[i] gate[i] s[i]";
  static constexpr Slot gate = input(0, "gate"), up = input(1, "up"), dy = input(2, "dy");
  static constexpr Slot dgate = output(3, "dgate").may_be(gate, dy), dup = output(4, "dup").may_be(up);

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of gate, up, dy, dgate and dup");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[gate][0]; }
  std::vector<TensorSpec> tensors() const {
    return {gate.of(dtype, {n}, kActivationFill), up.of(dtype, {n}), dy.of(dtype, {n}), dgate.of(dtype, {n}),
            dup.of(dtype, {n})};
  }
  double flops() const { return 11.0 * n; }

  // abs_sum is an error in units of u = 2^-24. dup: as y of SwiGlu, with two products more. dgate, times dy up: s has
  // 6 roundings; 1 - s, computed as such or as the sigmoid of -gate, is wrong by at most 6 of s and 6 of itself; it is
  // multiplied, added and multiplied, with a rounding each. Where s is below the smallest normal number it may become
  // 0. Then the result is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/swiglu.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"large values of up and dy", "n:1031 up=-100..100 dy=-100..100"},
        {"one NaN, the last of the gradients", "n:1031 dy=last:nan"},
    };
    return swiglu_cases(scale, odd);
  }
};

}  // namespace duet
