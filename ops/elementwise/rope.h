// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (RoFormer, arXiv:2104.09864) and its gradient, in the form of Llama and GPT-NeoX: element j
// of a head is paired with j + D/2, and token t turns pair j by the angle t base^(-2j/D).
//   x, y, dy, dx: (B, T, H, D), dense; D is even. y may be x, dx may be dy.
//   Forward with `positioned`: the tokens of sequence b are position[b], position[b] + 1, ..., as where a text goes on
//   behind those that a cache holds; position: (B) i32.
//   Backward turns by minus the angle, which is the transposed rotation.
//   Angles are as good as in double: t base^(-2j/D) in f32 is wrong by t 2^-24, a thousandth for long sequences. The
//   implementations count turns in 64-bit fixed point (rope_turns.h). What follows is in f32 or better.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/elementwise/rope_turns.h"

namespace duet {

namespace rope {

inline std::string invalid(int64_t D, double base) {
  if (D % 2 != 0) return "D must be even, is " + std::to_string(D);
  return base >= 1 && base <= kMaxBase ? "" : "base must lie in 1 to 1e15, is " + std::to_string(base);
}

// abs_sum is an error in units of u = 2^-24, which the reference claims. x cos - x' sin with: an angle of at most an
// eighth of a turn, which is rounded to f32, multiplied by a rounded 2 pi, and rounded: 3; of 32 bits of a turn the
// last is cut off: 2 pi 2^-32 / u = 0.025, whatever the size of cos and sin; a sine and a cosine of 1.5 ulp = 3; one
// rounding of each product, and one of the sum. Then the result is rounded to dtype.
inline constexpr double kTermRoundings = 3 + 3 + 1, kAngleError = 0.025;

inline Tolerance tolerance(DType dtype) {
  return {.rel = unit_roundoff(dtype), .abs_sum = unit_roundoff(DType::f32), .abs = underflow(dtype)};
}

inline Cases cases(Scale scale, const Cases& odd) {
  const Cases test{
      {"one pair", "B:1 T:1 H:1 D:2"},
      {"no sequence", "B:0 T:3 H:2 D:6"},
      {"no token", "B:2 T:0 H:2 D:6"},
      {"no head", "B:2 T:3 H:0 D:6"},
      {"heads of nothing", "B:2 T:3 H:2 D:0"},
      {"nothing alike", "B:2 T:7 H:3 D:10"},
      {"half a head is a lane over a warp", "B:2 T:31 H:3 D:66"},
      {"whole packs", "B:2 T:17 H:4 D:64"},
      {"half a head is whole packs of f32 only", "B:1 T:5 H:3 D:40"},
      {"prime, longer than a block", "B:1 T:1031 H:2 D:6"},
      {"more pairs than threads of a block", "B:1 T:3 H:1 D:1030"},
      {"every pair turns alike", "B:1 T:33 H:2 D:8 base:1"},
      {"another base", "B:1 T:33 H:2 D:64 base:500000"},
  };
  const Cases lone{{"thousands of turns", "B:1 T:50021 H:1 D:4"}};
  const Cases standard{
      {"Llama 2 7B, 2048 tokens", "B:1 T:2048 H:32 D:128"},
      {"Llama 3 8B, keys of 2048 tokens", "B:1 T:2048 H:8 D:128 base:500000"},
      {"as GPT-2 124M, 8 x 1024 tokens", "B:8 T:1024 H:12 D:64"},
  };
  const Cases more{
      {"Llama 2 7B, 8 x 4096 tokens", "B:8 T:4096 H:32 D:128"},
      {"Llama 3 8B, keys of 8 x 4096 tokens", "B:8 T:4096 H:8 D:128 base:500000"},
      {"Llama 2 70B, 8 x 4096 tokens: 1 GiB an f32 tensor", "B:8 T:4096 H:64 D:128"},
  };
  return concat(
      {with_odd(scale,
                by_scale(scale, across(kFloatTypes, test), across(kFloatTypes, standard), across(kFloatTypes, more)),
                odd),
       by_scale(scale, lone, {}, {}, sweep("T", 1, 16384, "B:1 H:8 D:128"))});
}

}  // namespace rope

struct Rope {
  static constexpr const char* name = "rope";
  static constexpr const char* formula =
      "a = (position[b] + t) base^(-2j/D),  y[b,t,h,j] = x[b,t,h,j] cos a - x[b,t,h,j+D/2] sin a,  "
      "y[b,t,h,j+D/2] = x[b,t,h,j+D/2] cos a + x[b,t,h,j] sin a,  j < D/2";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);
  static constexpr Slot position = input(2, "position");  // with positioned; otherwise zeros
  static constexpr int64_t kMaxDrawn = 8192;              // positions are drawn below it

  int64_t B = 0, T = 0, H = 0, D = 0;
  DType dtype = DType::f32;
  double base = 10000;
  bool positioned = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("B", B, "sequences");
    field("T", T, "tokens of each");
    field("H", H, "heads");
    field("D", D, "elements of a head");
    field.option("base", base, "pair j turns by base^(-2j/D) from token to token");
    field.option("positioned", positioned, "sequence b begins at position[b] instead of 0");
  }
  std::string invalid() const { return rope::invalid(D, base); }
  void infer(Shapes s) {
    B = s[x][0];
    T = s[x][1];
    H = s[x][2];
    D = s[x][3];
  }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, {B, T, H, D}), y.of(dtype, {B, T, H, D})};
    if (positioned) all.push_back(position.of(DType::i32, {B}, Fill::below(kMaxDrawn)));
    return all;
  }
  double flops() const {
    return 3.0 * static_cast<double>(B) * static_cast<double>(T) * static_cast<double>(H) * static_cast<double>(D);
  }
  Tolerance tolerance() const { return rope::tolerance(dtype); }
  int64_t slices() const { return B * T * H; }                    // a head of a token
  void reference(Inputs in, int64_t head, Expect& expect) const;  // cpu_ref/elementwise/rope.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"decode: one token of each sequence", "B:5 T:1 H:3 D:64"},
        {"decode: half a head is a lane over a warp", "B:3 T:1 H:2 D:66"},
        {"several tokens from a position on", "B:3 T:7 H:2 D:10"},
        {"positions before the beginning", "B:2 T:5 H:1 D:8 position=-3"},
    };
    const Cases standard{{"Llama 3 8B, decode, 16 sequences", "B:16 T:1 H:32 D:128 base:500000"}};
    return concat({rope::cases(scale, {{"one infinity, the last", "B:1 T:5 H:2 D:64 x=last:inf"},
                                       {"one NaN, the last", "B:2 T:7 H:3 D:10 x=last:nan"}}),
                   across(kFloatTypes, with("positioned:1", by_scale(scale, test, standard)))});
  }
};

struct RopeBackward {
  static constexpr const char* name = "rope_backward";
  static constexpr const char* formula =
      "a = t base^(-2j/D),  dx[b,t,h,j] = dy[b,t,h,j] cos a + dy[b,t,h,j+D/2] sin a,  "
      "dx[b,t,h,j+D/2] = dy[b,t,h,j+D/2] cos a - dy[b,t,h,j] sin a,  j < D/2";
  static constexpr Slot dy = input(0, "dy"), dx = output(1, "dx").may_be(dy);

  int64_t B = 0, T = 0, H = 0, D = 0;
  DType dtype = DType::f32;
  double base = 10000;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of dy and dx");
    field("B", B, "sequences");
    field("T", T, "tokens of each");
    field("H", H, "heads");
    field("D", D, "elements of a head");
    field.option("base", base, "pair j turns by base^(-2j/D) from token to token");
  }
  std::string invalid() const { return rope::invalid(D, base); }
  void infer(Shapes s) {
    B = s[dy][0];
    T = s[dy][1];
    H = s[dy][2];
    D = s[dy][3];
  }
  std::vector<TensorSpec> tensors() const { return {dy.of(dtype, {B, T, H, D}), dx.of(dtype, {B, T, H, D})}; }
  double flops() const { return Rope{.B = B, .T = T, .H = H, .D = D}.flops(); }
  Tolerance tolerance() const { return rope::tolerance(dtype); }
  int64_t slices() const { return B * T * H; }                    // a head of a token
  void reference(Inputs in, int64_t head, Expect& expect) const;  // cpu_ref/elementwise/rope.cpp

  static Cases cases(Scale scale) {
    return rope::cases(scale, {{"one NaN, the last", "B:2 T:7 H:3 D:10 dy=last:nan"}});
  }
};

}  // namespace duet
