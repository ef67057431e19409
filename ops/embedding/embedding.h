// SPDX-License-Identifier: Apache-2.0
// Looks up a row of a table for each token and adds a row for the token's position in its sequence; and the gradients.
//   token: (B, T) i32; table, dtable: (V, C); position, dposition: (T, C); y, dy: (B, T, C); row-major, dense. With
//   position = 0 there is neither position nor dposition.
//   A token outside [0, V) gives zeros and adds nothing to a gradient.
//   Backward: dtable and dposition are overwritten. With accumulate = 1 the gradient is added to dtable, for a table
//   that is also the weight of the output layer.
// Sums are formed as ops/summation.h says.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"

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
    field.option("position", position, "a row for the position in the sequence is added");
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
  // The sum is rounded to f32, then to dtype. Without a position there is no sum and nothing is rounded.
  Tolerance tolerance() const {
    const double u = position ? unit_roundoff(DType::f32) + unit_roundoff(dtype) : 0;
    return {.rel = u, .abs = underflow(dtype)};
  }
  int64_t slices() const { return tokens(); }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/embedding/embedding.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one of everything", "B:1 T:1 V:1 C:1"},
        {"no sequence", "B:0 T:3 V:5 C:7"},
        {"no token", "B:2 T:0 V:5 C:7"},
        {"no table: every token is outside of it", "B:2 T:3 V:0 C:7"},
        {"rows of nothing", "B:2 T:3 V:5 C:0"},
        {"a lane short of a warp, tokens repeat", "B:3 T:7 V:5 C:31"},
        {"a lane over a warp", "B:2 T:33 V:11 C:33"},
        {"no position", "B:3 T:31 V:7 C:33 position:0"},
        {"whole packs", "B:2 T:17 V:100 C:64"},
        {"tokens beyond the table", "B:3 T:7 V:5 C:33 token=below:10"},
        {"tokens beyond the table, whole packs", "B:3 T:7 V:5 C:64 token=below:10"},
        {"no token is in the table", "B:2 T:3 V:5 C:16 token=-1"},
        {"long rows", "B:2 T:3 V:5 C:1031"},
        {"BiLSTM's rows, more tokens than words", "B:17 T:65 V:33 C:16 position:0"},
    };
    const Cases standard{
        {"GPT-2 124M, 8 x 1024 tokens", "B:8 T:1024 V:50257 C:768"},
        {"BiLSTM sentiment, 512 x 256 tokens", "B:512 T:256 V:10000 C:16 position:0"},
    };
    const Cases more{
        {"Transformer base, 64 x 64 tokens", "B:64 T:64 V:37000 C:512"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("T", 1, 16384, "B:1 V:50257 C:768"))});
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
  // abs_sum is an error in units of u = 2^-24: that of the additions (ops/bounded_sum.h), of which there is one more to
  // accumulate. Then the sum is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  // A row of dtable, then one of dposition. The first one is that of the first token, so that samples see a row that is
  // not zero: V is mostly far more than the tokens. The two change places.
  int64_t slices() const { return V + (position ? T : 0); }
  std::vector<int64_t> parts() const { return {V, position ? T : 0}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/embedding/embedding.cpp

  static Cases cases(Scale scale) {  // those of Embedding, and sums of many terms
    const Cases test{
        {"one word over and over: many additions", "B:4111 T:1 V:1 C:3"},
        {"three words of many, each a thousand times", "B:9 T:333 V:300 C:16 token=below:3"},
        {"frequent words, and tokens beyond the table", "B:9 T:333 V:3 C:5 token=below:4"},
    };
    return concat({across({"accumulate:0", "accumulate:1"}, Embedding::cases(scale)),
                   by_scale(scale, across(kFloatTypes, test), {})});
  }
};

}  // namespace duet
