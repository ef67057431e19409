// SPDX-License-Identifier: Apache-2.0
// Self-attention on what one projection of the tokens writes, and its gradients: attention (ops/attention/attention.h)
// without the permutations from tokens to heads and back.
//   qkv, dqkv: (B, T, 3, H, D): of each token the heads of q, then those of k, then those of v; y, dy: (B, T, H, D);
//   lse: (B, H, T); row-major, dense. No output may be an input.
// Arithmetic is in f32 or better. Scores stay so; probabilities and gradients of scores may be rounded to dtype between
// the products.
// FlashAttention calls it qkvpacked (github.com/Dao-AILab/flash-attention).
#pragma once
#include "ops/attention/attention.h"

namespace duet {

// What forward and backward have in common.
struct PackedAttentionShape {
  int64_t B = 0, T = 0, H = 0, D = 0;
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(D)
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors but lse");
    field("B", B, "sequences");
    field("T", T, "tokens of a sequence");
    field("H", H, "heads");
    field("D", D, "features of a head");
    field.option("causal", causal, "token i sees only the tokens j <= i");
    field.option("scale", scale, "factor of q k'; 0: 1 / sqrt(D)");
  }
  void infer(const Shapes::Dims& qkv) {
    B = qkv[0];
    T = qkv[1];
    H = qkv[3];
    D = qkv[4];
  }
  // The same attention, of heads that lie apart.
  AttentionShape unpacked() const {
    return {.B = B,
            .H = H,
            .Tq = T,
            .Tk = T,
            .D = D,
            .causal = causal,
            .scale = scale,
            .dtype = dtype,
            .rounds_scores = false};
  }
  std::string invalid() const { return unpacked().invalid(); }
  Shape qkv_shape() const { return {B, T, 3, H, D}; }
  Shape y_shape() const { return {B, T, H, D}; }
  // Parts of qkv and dqkv, 0: q, 1: k, 2: v: where the rows of their heads lie, and the first element.
  HeadRows rows_of_part(int64_t which) const { return HeadRows::packed(H, T, D, 3, which); }
  template <class E>
  E* part(E* packed, int64_t which) const {
    return packed + rows_of_part(which).first;
  }
  AttentionRows rows() const {
    return {rows_of_part(0), rows_of_part(1), rows_of_part(2), HeadRows::packed(H, T, D, 1, 0)};
  }

  // Of q and k: scores have the deviation of those of attention.
  static constexpr double kReach = 2;
};

struct AttentionPacked : PackedAttentionShape {
  static constexpr const char* name = "attention_packed";
  static constexpr const char* formula =
      "q, k, v = qkv[:,:,0..2];  y[i] = sum_j p[i,j] v[j],  p = exp(s - lse[i]),  s = scale q[i].k[j],  "
      "lse[i] = log sum_j exp(s[i,j])";
  static constexpr Slot qkv = input(0, "qkv"), y = output(1, "y"), lse = output(2, "lse");

  void infer(Shapes s) { PackedAttentionShape::infer(s[qkv]); }
  std::vector<TensorSpec> tensors() const {
    return {qkv.of(dtype, qkv_shape(), Fill::uniform(-kReach, kReach)), y.of(dtype, y_shape()),
            lse.of(statistic_dtype(dtype), {B, H, T})};
  }
  double flops() const { return Attention{unpacked()}.flops(); }
  Tolerance tolerance(int slot) const {
    return Attention{unpacked()}.tolerance(slot == lse.index ? Attention::lse.index : Attention::y.index);
  }
  int64_t slices() const { return B * H * T; }                     // a token of a head
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/attention/attention.cpp
  static Cases cases(Scale scale);
};

// y and lse are those of the forward pass.
struct AttentionPackedBackward : PackedAttentionShape {
  static constexpr const char* name = "attention_packed_backward";
  static constexpr const char* formula =
      "dqkv = (dq, dk, dv);  dv[j] = sum_i p[i,j] dy[i],  ds[i,j] = scale p[i,j] (dy[i].v[j] - dy[i].y[i]),  "
      "dq[i] = sum_j ds[i,j] k[j],  dk[j] = sum_i ds[i,j] q[i]";
  static constexpr Slot qkv = input(0, "qkv"), y = input(1, "y"), lse = input(2, "lse"), dy = input(3, "dy"),
                        dqkv = output(4, "dqkv");

  void infer(Shapes s) { PackedAttentionShape::infer(s[qkv]); }
  std::vector<TensorSpec> tensors() const {
    return {qkv.of(dtype, qkv_shape(), Fill::uniform(-kReach, kReach)), y.of(dtype, y_shape()),
            lse.of(statistic_dtype(dtype), {B, H, T}, unpacked().fill_of_lse()), dy.of(dtype, y_shape()),
            dqkv.of(dtype, qkv_shape())};
  }
  double flops() const { return AttentionBackward{unpacked()}.flops(); }
  Tolerance tolerance() const { return unpacked().tolerance_of_deviation(); }
  int64_t slices() const { return 2 * B * H * T; }  // a token of a head as a query; after these, as a key
  std::vector<int64_t> parts() const { return {B * H * T, B * H * T}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/attention/attention.cpp
  static Cases cases(Scale scale) { return AttentionPacked::cases(scale); }
};

inline Cases AttentionPacked::cases(Scale scale) {
  const Cases test{
      {"one token", "B:1 T:1 H:1 D:1"},
      {"no sequence", "B:0 T:3 H:2 D:8"},
      {"no token", "B:2 T:0 H:2 D:8"},
      {"no head", "B:2 T:3 H:0 D:8"},
      {"heads without features", "B:1 T:3 H:2 D:0"},
      {"few tokens", "B:2 T:5 H:2 D:4 causal:1"},
      {"several sequences and heads", "B:2 T:17 H:3 D:8"},
      {"beside a tile", "B:2 T:65 H:2 D:8 causal:1"},
      {"heads that end within a pack", "B:2 T:33 H:3 D:5 causal:1"},
      {"heads of GPT-2", "B:1 T:33 H:2 D:64 causal:1"},
      {"wide heads, a tile", "B:1 T:17 H:2 D:128 causal:1"},
      {"wide heads, two tiles", "B:1 T:40 H:1 D:72"},
      {"wide heads, several tiles", "B:1 T:150 H:2 D:96 causal:1"},
      {"wide heads that end within a pack", "B:1 T:67 H:2 D:99"},
      {"several tiles", "B:1 T:259 H:2 D:16 scale:0.5"},
      {"a negative scale", "B:2 T:75 H:2 D:16 scale:-0.5"},
  };
  const Cases standard{
      {"GPT-2 124M, one sequence of 256 tokens", "B:1 T:256 H:12 D:64 causal:1"},
      {"GPT-2 124M, batch 4", "B:4 T:1024 H:12 D:64 causal:1"},
      {"BERT-base, one sequence", "B:1 T:384 H:12 D:64"},
  };
  const Cases more{
      {"FlashAttention-2, 16k tokens", "B:16 T:1024 H:32 D:64 causal:1"},
      {"FlashAttention-2, 16k tokens", "B:4 T:4096 H:16 D:128 causal:1"},
  };
  return across(kFloatTypes, by_scale(scale, test, standard, more));
}

}  // namespace duet
