// SPDX-License-Identifier: Apache-2.0
// Splits the heads of attention: from tokens that hold the heads side by side to one matrix for each head, and back
// with inverse = 1. Packed projections, such as queries, keys and values, are separated as well: split = 3.
// x: (B, T, split, H, D); y: (split, B, H, T, D); row-major, dense; with inverse = 1 the shapes are exchanged. Where
// split is 1 its axis is left out. x and y do not overlap.
#pragma once
#include "core/problem.h"

namespace duet {

struct Permute {
  static constexpr const char* name = "permute";
  static constexpr const char* formula = "y[s,b,h,t,d] = x[b,t,s,h,d];  inverse: y[b,t,s,h,d] = x[s,b,h,t,d]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t B = 0, T = 0, H = 0, D = 0;
  int64_t split = 1;
  bool inverse = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("B", B, "sequences");
    field("T", T, "tokens of each");
    field("H", H, "heads");
    field("D", D, "elements of a head");
    field.option("split", split, "projections that are packed side by side");
    field.option("inverse", inverse, "from heads to tokens");
  }
  std::string invalid() const { return split >= 1 ? "" : "split: 1 or more"; }
  void infer(Shapes s) {
    const size_t extra = split == 1 ? 0 : 1;
    B = s[x][inverse ? extra : 0];
    T = s[x][inverse ? 2 + extra : 1];
    H = s[x][inverse ? 1 + extra : 2 + extra];
    D = s[x][3 + extra];
  }
  Shape tokens_shape() const { return split == 1 ? Shape{B, T, H, D} : Shape{B, T, split, H, D}; }
  Shape heads_shape() const { return split == 1 ? Shape{B, H, T, D} : Shape{split, B, H, T, D}; }
  int64_t rows() const { return split * B * H * T; }  // runs of D elements
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, inverse ? heads_shape() : tokens_shape()),
            y.of(dtype, inverse ? tokens_shape() : heads_shape())};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }                          // elements move bit for bit
  int64_t slices() const { return rows(); }                           // a run of y
  void reference(Inputs in, int64_t row_of_y, Expect& expect) const;  // cpu_ref/memory/permute.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "B:1 T:1 H:1 D:1"},
        {"no sequence", "B:0 T:3 H:2 D:5"},
        {"no token", "B:2 T:0 H:2 D:5"},
        {"no head", "B:2 T:3 H:0 D:5"},
        {"heads of nothing", "B:2 T:3 H:2 D:0"},
        {"nothing alike", "B:2 T:7 H:3 D:5"},
        {"beside a warp", "B:2 T:31 H:3 D:33"},
        {"whole packs", "B:2 T:17 H:4 D:64"},
        {"prime, longer than a block", "B:1 T:1031 H:2 D:3"},
        {"packed queries, keys and values", "B:2 T:7 H:3 D:5 split:3"},
        {"packed, whole packs", "B:1 T:33 H:2 D:40 split:3"},
        {"edge values, infinities and NaN", "B:2 T:31 H:3 D:33 x=edges+inf+nan"},
    };
    const Cases standard{
        {"GPT-2 124M, queries, keys and values, B8 T1024", "B:8 T:1024 H:12 D:64 split:3"},
        {"GPT-2 124M, one of them", "B:8 T:1024 H:12 D:64"},
        {"BERT-base, 32 x 384 tokens", "B:32 T:384 H:12 D:64"},
    };
    const Cases more{
        {"Transformer base, 64 x 64 tokens, packed", "B:64 T:64 H:8 D:64 split:3"},
    };
    return across(kFloatTypes, across({"inverse:0", "inverse:1"}, by_scale(scale, test, standard, more)));
  }
};

}  // namespace duet
