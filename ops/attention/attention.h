// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention and its gradients.
//   q, y: (B, H, Tq, D); k, v: (B, Hkv, Tk, D); lse: (B, H, Tq); row-major, dense. No output may be an input.
//   Hkv divides H: query heads h with the same h / (H / Hkv) share a head of k and v (grouped queries).
//   Causal: query i sees the keys j <= i, both counted from the first, as in PyTorch. With a window it sees only the
//   last `window` of them, its own included (i - j < window, as Mistral-7B has it).
//   padded: sequence b has lengths[b] keys, lengths (B) i32; those after them are seen by no query. A length below 1
//   counts as 1, one above Tk as Tk: every query sees at least one key.
//   lse is the logarithm of each row's sum of exp(score). From it the backward pass computes the probabilities again
//   (arXiv:2205.14135, 2307.08691).
// Arithmetic is in f32 or better. Scores, probabilities and their gradients may be rounded to dtype between
// the products.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include "core/problem.h"
#include "ops/attention/attention_cases.h"
#include "ops/gemm/product.h"
#include "ops/statistic.h"

namespace duet {

// Where the rows of the heads of a tensor lie, in elements.
struct HeadRows {
  int64_t heads;                // of a sequence
  int64_t first;                // where the first row of the first head begins
  int64_t sequence, head, row;  // from a sequence, a head, a row to the next one
  // (B, heads, rows, D)
  static HeadRows dense(int64_t heads, int64_t rows, int64_t D) { return {heads, 0, heads * rows * D, rows * D, D}; }
  // (B, rows, parts, heads, D), of which one part.
  static HeadRows packed(int64_t heads, int64_t rows, int64_t D, int64_t parts, int64_t part) {
    const int64_t width = heads * D;
    return {heads, part * width, rows * parts * width, D, parts * width};
  }
  // The first element of row i of a head that is counted over all sequences.
  int64_t at(int64_t head_of_batch, int64_t i) const {
    return first + head_of_batch / heads * sequence + head_of_batch % heads * head + i * row;
  }
};

struct AttentionRows {
  HeadRows q, k, v, y;  // gradients lie as what they are gradients of
};

// What forward and backward have in common.
struct AttentionShape {
  int64_t B = 0, H = 0, Tq = 0, Tk = 0, D = 0;
  int64_t Hkv = 0;  // 0: H
  bool causal = false;
  double scale = 0;    // 0: 1 / sqrt(D)
  int64_t window = 0;  // 0: no limit
  bool padded = false;
  DType dtype = DType::f32;
  bool rounds_scores = true;  // no attribute: whether the contract allows scores to be rounded to dtype

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors but lse");
    field("B", B, "sequences");
    field("H", H, "heads of q");
    field("Tq", Tq, "queries of a sequence");
    field("Tk", Tk, "keys of a sequence");
    field("D", D, "features of a head");
    field.option("Hkv", Hkv, "heads of k and v; 0: as many as q has");
    field.option("causal", causal, "query i sees only the keys j <= i");
    field.option("scale", scale, "factor of q k'; 0: 1 / sqrt(D)");
    field.option("window", window, "with causal: query i sees only its own key and the window - 1 before it; 0: all");
    field.option("padded", padded, "each sequence has its own number of keys, in lengths");
  }
  void infer(const Shapes::Dims& q, const Shapes::Dims& k) {
    B = q[0];
    H = q[1];
    Tq = q[2];
    D = q[3];
    Tk = k[2];
    Hkv = k[1] == H ? 0 : k[1];
  }
  int64_t kv_heads() const { return Hkv == 0 ? H : Hkv; }
  int64_t group() const { return H == 0 ? 1 : H / kv_heads(); }  // query heads that share k and v
  double factor() const { return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, D))); }
  // How many keys a sequence has whose element of lengths is `given`.
  int64_t length_of(int64_t given) const { return std::min(Tk, std::max<int64_t>(1, given)); }
  // The keys [first, last) that a query sees. length: of its sequence, Tk unless padded.
  struct Keys {
    int64_t first, last;
  };
  Keys seen(int64_t query, int64_t length) const {
    return {window > 0 ? std::max<int64_t>(0, query + 1 - window) : 0, causal ? std::min(query + 1, length) : length};
  }
  // Lengths are drawn evenly between Tk / 2 and Tk, the longest first, so that the work of a padded case is known.
  int64_t drawn_length(int64_t sequence) const { return Tk - (Tk / 2) * sequence / std::max<int64_t>(1, B); }
  double pairs() const {  // of a query and a key that it sees: one head of each sequence
    const auto of_sequence = [this](int64_t length) {
      if (!causal) return static_cast<double>(Tq) * static_cast<double>(length);
      const int64_t limit = window > 0 ? std::min(window, length) : length, t = std::min(Tq, limit);
      return static_cast<double>(t) * static_cast<double>(t + 1) / 2 +
             static_cast<double>(Tq - t) * static_cast<double>(limit);
    };
    if (!padded) return static_cast<double>(B) * of_sequence(Tk);
    double sum = 0;
    for (int64_t b = 0; b < B; ++b) sum += of_sequence(drawn_length(b));
    return sum;
  }
  Shape q_shape() const { return {B, H, Tq, D}; }
  Shape k_shape() const { return {B, kv_heads(), Tk, D}; }
  AttentionRows rows() const {
    const HeadRows of_queries = HeadRows::dense(H, Tq, D), of_keys = HeadRows::dense(kv_heads(), Tk, D);
    return {of_queries, of_keys, of_keys, of_queries};
  }

  TensorSpec of_keys(Slot slot) const {  // k or v, of which only the keys of each sequence are read
    TensorSpec spec = slot.of(dtype, k_shape());
    if (!padded) return spec;
    int64_t keys = 0;
    for (int64_t b = 0; b < B; ++b) keys += drawn_length(b);
    return spec.touching(keys * kv_heads() * D);
  }

  std::string invalid() const {
    if (padded && B > kMaxPadded) return "padded: B " + std::to_string(B) + ", at most " + std::to_string(kMaxPadded);
    if (Hkv < 0 || H % std::max<int64_t>(1, kv_heads()) != 0)
      return "Hkv " + std::to_string(Hkv) + ": 0 or a divisor of H " + std::to_string(H);
    if (Tk == 0 && B * H * Tq > 0) return "Tk 0: every query sees at least one key";
    if (scale != 0 && !(std::abs(scale) >= kMinScale && std::abs(scale) <= kMaxScale)) {
      char text[32];
      std::snprintf(text, sizeof text, "%g", scale);
      return std::string("scale ") + text + ": 0 for 1 / sqrt(D), or a number from 1e-30 to 1e30 or its negative";
    }
    if (window < 0 || window > INT32_MAX)
      return "window " + std::to_string(window) + ": 0 for no limit, or a number of keys below 2^31";
    if (window > 0 && !causal) return "window " + std::to_string(window) + ": only with causal:1";
    if (window > 0 && Tq > Tk)
      return "window: Tq " + std::to_string(Tq) + " above Tk " + std::to_string(Tk) + ", late queries would see no key";
    if (window > 0 && padded) return "window with padded: queries after the end of a sequence would see no key";
    if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
    return {};
  }

  static constexpr int64_t kMaxPadded = int64_t{1} << 20;
  // Of a scale that is given: it and its products with scores are neither 0 nor infinite in f32.
  static constexpr double kMinScale = 1e-30, kMaxScale = 1e30;

  // q lies in +-kReach: scores have a standard deviation of about 1.3, so that few keys carry most of a row.
  static constexpr double kReach = 4;

  // The error of an element, as the reference claims it in abs_sum, is the standard deviation of what the roundings of
  // a kernel add up to, each in proportion to how far it moves the element:
  //  - a score s: the D products and their additions, scale and log2 e (product_error, ops/gemm/product.h, a bound of
  //    kDeviations); the roundings of the argument of exp, relative to its two terms; exp (5 u) and going from tile to
  //    tile (6 u), taken as 6 u;
  //  - values that may be rounded to dtype between the products, bf16 and f16: scores (rounds_scores), probabilities,
  //    and in the backward pass their gradients before and after the multiplication by p. Each rounding of a value t
  //    has a deviation of u |t| / sqrt(3);
  //  - the sums over keys, queries and D. delta = dy.y is the same for all keys of a query, and is not rounded to
  //    dtype.
  // Those of different pairs of a query and a key are independent: their squares add up. In the sum of absolute values
  // instead, as first-order bounds have it, the error would exceed the gradients of long sequences.
  Tolerance tolerance_of_deviation() const {
    const double u_out = unit_roundoff(dtype);
    return {.rel = std::max(u_out, 2 * u_sum()), .abs_sum = kDeviations * (1 + u_out), .abs = underflow(dtype)};
  }
  // Of one rounding, relative: in f32 (f64 for f64), and to dtype where that is a half.
  double u_sum() const { return std::min(unit_roundoff(DType::f32), unit_roundoff(dtype)); }
  double deviation_half() const { return is_half() ? unit_roundoff(dtype) / std::sqrt(3.0) : 0; }
  double deviation_of_score() const { return rounds_scores ? deviation_half() : 0; }
  bool is_half() const { return dtype == DType::bf16 || dtype == DType::f16; }
  // Of the backward pass: so that the probabilities of the drawn scores add up to about 1. The logarithm of the mean of
  // exp(s) is about 1.
  Fill fill_of_lse() const {
    const int64_t seen_keys = window > 0 ? std::min(window, Tk) : Tk;
    const double level = 1 + std::log(static_cast<double>(std::max<int64_t>(1, seen_keys)));
    return Fill::uniform(level - 0.5, level + 0.5);
  }
  // How a tensor's elements are drawn that may be lengths.
  std::function<double(int64_t, uint32_t)> drawn_lengths(bool is_lengths) const {
    if (!is_lengths) return {};
    return [p = *this](int64_t b, uint32_t) { return static_cast<double>(p.drawn_length(b)); };
  }
  // Of a sum of `count` products: a bound of kDeviations deviations.
  double deviation_of_sum(double count, double sum, double root_sum) const {
    const SumError error = product_error(count, 2, dtype);
    return (error.rel * std::abs(sum) + error.root_sum * root_sum) / kDeviations;
  }
};

struct Attention : AttentionShape {
  static constexpr const char* name = "attention";
  static constexpr const char* formula =
      "y[i] = sum_j p[i,j] v[j],  p = exp(s - lse[i]),  s = scale q[i].k[j],  lse[i] = log sum_j exp(s[i,j])";
  static constexpr Slot q = input(0, "q"), k = input(1, "k"), v = input(2, "v"), y = output(3, "y"),
                        lse = output(4, "lse");
  static constexpr Slot lengths = input(5, "lengths");  // with padded

  void infer(Shapes s) { AttentionShape::infer(s[q], s[k]); }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{q.of(dtype, q_shape(), Fill::uniform(-kReach, kReach)), of_keys(k), of_keys(v),
                                y.of(dtype, q_shape()), lse.of(statistic_dtype(dtype), {B, H, Tq})};
    if (padded) all.push_back(lengths.of(DType::i32, {B}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const { return drawn_lengths(slot == lengths.index); }
  double flops() const { return 4.0 * H * pairs() * D; }  // two products

  Tolerance tolerance(int slot) const {
    Tolerance t = tolerance_of_deviation();
    if (slot == lse.index) t.rel = 4 * unit_roundoff(statistic_dtype(dtype));  // the logarithm and its sum with m
    return t;
  }
  int64_t slices() const { return B * H * Tq; }                    // a query
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/attention/attention.cpp
  static Cases cases(Scale scale) {
    const Cases odd{
        {"every score so low that its exp is 0", "B:1 H:2 Tq:17 Tk:33 D:8 q=9..11 k=-4.5..-3.5"},
    };
    return with_odd(scale, concat({attention_cases(scale), masked_attention_cases(scale), decode_cases(scale)}), odd);
  }
};

// y and lse are those of the forward pass. dk and dv are sums over the query heads that share them; they are 0 for keys
// that no query sees.
struct AttentionBackward : AttentionShape {
  static constexpr const char* name = "attention_backward";
  static constexpr const char* formula =
      "dv[j] = sum_i p[i,j] dy[i],  ds[i,j] = scale p[i,j] (dy[i].v[j] - dy[i].y[i]),  dq[i] = sum_j ds[i,j] k[j],  "
      "dk[j] = sum_i ds[i,j] q[i]";
  static constexpr Slot q = input(0, "q"), k = input(1, "k"), v = input(2, "v"), y = input(3, "y"),
                        lse = input(4, "lse"), dy = input(5, "dy"), dq = output(6, "dq"), dk = output(7, "dk"),
                        dv = output(8, "dv");
  static constexpr Slot lengths = input(9, "lengths");  // with padded

  void infer(Shapes s) { AttentionShape::infer(s[q], s[k]); }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{q.of(dtype, q_shape(), Fill::uniform(-kReach, kReach)),
                                of_keys(k),
                                of_keys(v),
                                y.of(dtype, q_shape()),
                                lse.of(statistic_dtype(dtype), {B, H, Tq}, fill_of_lse()),
                                dy.of(dtype, q_shape()),
                                dq.of(dtype, q_shape()),
                                dk.of(dtype, k_shape()),
                                dv.of(dtype, k_shape())};
    if (padded) all.push_back(lengths.of(DType::i32, {B}));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const { return drawn_lengths(slot == lengths.index); }
  double flops() const { return 10.0 * H * pairs() * D; }  // five products: the scores are computed again

  Tolerance tolerance() const { return tolerance_of_deviation(); }
  int64_t slices() const { return B * H * Tq + B * kv_heads() * Tk; }  // a query; after the queries, a key
  std::vector<int64_t> parts() const { return {B * H * Tq, B * kv_heads() * Tk}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/attention/attention.cpp
  static Cases cases(Scale scale) { return concat({attention_cases(scale), masked_attention_cases(scale)}); }
};

}  // namespace duet
