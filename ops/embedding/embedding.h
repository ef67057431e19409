// SPDX-License-Identifier: Apache-2.0
// Rows of a table, looked up by token, plus a row for the position in its sequence. token: (B, T) i32; table, dtable: (V, C);
// position, dposition: (T, C); y, dy: (B, T, C); row-major, dense. position = 0 leaves position and dposition out. A token
// outside [0, V) looks up zeros and passes nothing back.
// Backward: dtable and dposition are overwritten; accumulate = 1 adds to what dtable holds (a table that is also the output
// layer's weight). Summation as in ops/summation.h.
#pragma once
#include "core/problem.h"
#include "ops/summation.h"

namespace duet {

struct Embedding {
  static constexpr const char* name = "embedding";
  static constexpr const char* formula = "y[b,t,c] = table[token[b,t],c] + position[t,c]";
  static constexpr Slot token = input(0, "token"), table = input(1, "table"), y = output(2, "y");
  static constexpr Slot place = input(3, "position");  // the field position says whether there is one
  static constexpr bool exact_on_integers = true;

  int64_t B = 0, T = 0, V = 0, C = 0;
  DType dtype = DType::f32;
  bool position = true;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of table, position and y");
    field("B", B, "sequences");
    field("T", T, "tokens of each");
    field("V", V, "rows of the table");
    field("C", C, "elements of each");
    field.option("position", position, "a row for its place in the sequence is added");
  }
  void infer(Shapes s) {
    B = s[token][0];
    T = s[token][1];
    V = s[table][0];
    C = s[table][1];
  }
  std::string invalid() const { return V > INT32_MAX ? "V: below 2^31, a token is an i32" : ""; }
  int64_t tokens() const { return B * T; }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{token.of(DType::i32, {B, T}, Fill::below(std::max<int64_t>(1, V))),
                                table.of(dtype, {V, C}).touching(std::min(V, tokens()) * C), y.of(dtype, {B, T, C})};
    if (position) all.push_back(place.of(dtype, {T, C}));
    return all;
  }
  double flops() const { return position ? static_cast<double>(tokens() * C) : 0; }
  // The sum is rounded to f32, then to dtype; without one nothing is rounded.
  Tolerance tolerance() const {
    const double u = position ? unit_roundoff(DType::f32) + unit_roundoff(dtype) : 0;
    return {.rel = u, .abs = underflow(dtype)};
  }
  int64_t slices() const { return tokens(); }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/embedding/embedding.cpp

  static std::vector<Case<Embedding>> cases(Scale scale) {
    if (scale == Scale::test)
      return across(&Embedding::dtype, kFloats,
                    {{"one of everything", {1, 1, 1, 1}},
                     {"no sequence", {0, 3, 5, 7}},
                     {"no token", {2, 0, 5, 7}},
                     {"no table: every token is outside of it", {2, 3, 0, 7}},
                     {"rows of nothing", {2, 3, 5, 0}},
                     {"a lane short of a warp, tokens repeat", {3, 7, 5, 31}},
                     {"a lane over a warp", {2, 33, 11, 33}},
                     {"no position", {3, 31, 7, 33, DType::f32, false}},
                     {"whole packs", {2, 17, 100, 64}},
                     {"long rows", {2, 3, 5, 1031}},
                     {"BiLSTM's rows, more tokens than words", {17, 65, 33, 16, DType::f32, false}}});
    auto all = across(&Embedding::dtype, kFloats,
                      {{"GPT-2 124M, 8 x 1024 tokens", {8, 1024, 50257, 768}},
                       {"BiLSTM sentiment, 512 x 256 tokens", {512, 256, 10000, 16, DType::f32, false}}});
    if (scale == Scale::full)
      all = concat(std::move(all),
                   across(&Embedding::dtype, kFloats, {{"Transformer base, 64 x 64 tokens", {64, 64, 37000, 512}}}));
    return all;
  }
};

struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  static constexpr const char* formula =
      "dtable[v,c] (+)= sum_{b,t} dy[b,t,c] [token[b,t] = v],  dposition[t,c] = sum_b dy[b,t,c]";
  static constexpr Slot token = input(0, "token"), dy = input(1, "dy"), dtable = output(2, "dtable");
  static constexpr Slot dposition = output(3, "dposition");
  static constexpr bool exact_on_integers = true;

  int64_t B = 0, T = 0, V = 0, C = 0;
  DType dtype = DType::f32;
  bool position = true, accumulate = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of dy, dtable and dposition");
    field("B", B, "sequences");
    field("T", T, "tokens of each");
    field("V", V, "rows of the table");
    field("C", C, "elements of each");
    field.option("position", position, "dposition is written too");
    field.option("accumulate", accumulate, "dtable is added to");
  }
  void infer(Shapes s) {
    B = s[dy][0];
    T = s[dy][1];
    C = s[dy][2];
  }  // V is given
  std::string invalid() const {
    if (B * T > INT32_MAX) return "B T: below 2^31, implementations number tokens in an i32";
    return V > INT32_MAX ? "V: below 2^31, a token is an i32" : "";
  }
  int64_t tokens() const { return B * T; }
  std::vector<TensorSpec> tensors() const {
    const Slot to = accumulate ? inout(dtable.index, dtable.name) : dtable;
    std::vector<TensorSpec> all{token.of(DType::i32, {B, T}, Fill::below(std::max<int64_t>(1, V))),
                                dy.of(dtype, {B, T, C}, Fill::uniform(-0.5, 1)),
                                to.of(dtype, {V, C}).touching((accumulate ? std::min(V, tokens()) : V) * C)};
    if (position) all.push_back(dposition.of(dtype, {T, C}));
    return all;
  }
  double flops() const { return (position ? 2.0 : 1.0) * tokens() * C; }
  // Additions, one more to accumulate; then rounded to dtype.
  Tolerance tolerance(int slot) const {
    const double n = slot == dtable.index ? additions(tokens()) + 1 : additions(B);
    return {.rel = unit_roundoff(dtype), .abs_sum = gamma(n, unit_roundoff(DType::f32)), .abs = underflow(dtype)};
  }
  int64_t slices() const { return V + (position ? T : 0); }        // a row of dtable; then one of dposition
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/embedding/embedding.cpp

  static std::vector<Case<EmbeddingBackward>> cases(Scale scale) {  // those of Embedding, and sums of many terms
    std::vector<Case<EmbeddingBackward>> all;
    for (const auto& [why, p] : Embedding::cases(scale)) {
      all.push_back({why, {p.B, p.T, p.V, p.C, p.dtype, p.position}});
      if (scale != Scale::test || p.C % 2 == 1) all.push_back({why, {p.B, p.T, p.V, p.C, p.dtype, p.position, true}});
    }
    if (scale == Scale::test)
      all = concat(std::move(all), across(&EmbeddingBackward::dtype, kFloats,
                                          {{"one word over and over: many additions", {4111, 1, 1, 3}}}));
    return all;
  }
};

}  // namespace duet
