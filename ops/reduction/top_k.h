// SPDX-License-Identifier: Apache-2.0
// The k largest elements of each row, in descending order, and their columns.
//   x: (rows, cols), value: (rows, k), row-major, dense; index: (rows, k) i32.
//   Elements rank as ranking.h says: NaN first; of equal elements the lowest column first.
//   k is 1 to cols.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/reduction/ranking.h"

namespace duet {

struct TopK {
  static constexpr const char* name = "top_k";
  static constexpr const char* formula =
      "value[r,i] = x[r,index[r,i]], the element of rank i in row r, i < k; equal elements rank by column";
  static constexpr Slot x = input(0, "x"), value = output(1, "value"), index = output(2, "index");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  int64_t k = 5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and value");
    field("rows", rows, "rows of x");
    field("cols", cols, "columns of x");
    field.option("k", k, "elements of each row that are found, 1 to cols");
  }
  std::string invalid() const {
    if (cols > INT32_MAX) return "cols must be at most 2147483647, as index is i32; is " + std::to_string(cols);
    return ranking::invalid_k(rows, cols, k);
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, ranking::kFill), value.of(dtype, {rows, k}), index.of(DType::i32, {rows, k})};
  }
  double flops() const { return 0; }  // comparisons
  Tolerance tolerance(int slot) const { return {.abs = slot == value.index ? underflow(dtype) : 0}; }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/reduction/top_k.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "rows:1 cols:1 k:1"},
        {"no rows", "rows:0 cols:7"},
        {"the whole row", "rows:7 cols:5"},
        {"the whole row, longer than a warp", "rows:3 cols:67 k:67"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"beside a warp, the largest alone", "rows:31 cols:33 k:1"},
        {"whole packs", "rows:9 cols:256 k:8"},
        {"prime, longer than a block", "rows:5 cols:1031 k:31"},
        {"as many as a warp has lanes", "rows:2 cols:1100 k:32"},
        {"more than a warp has lanes", "rows:2 cols:1031 k:40"},
        {"one long row, several tasks", "rows:1 cols:20011"},
        {"a block for each row, many", "rows:1 cols:1031 k:70"},
        {"several parts of a row, more than a warp has lanes", "rows:1 cols:10007 k:40"},
        {"several parts of a row, many", "rows:1 cols:10007 k:70"},
        {"all equal", "rows:3 cols:1031 x=0.5"},
        {"many ties", "rows:5 cols:517 k:33 x=below:7"},
        {"all negative infinity", "rows:3 cols:67 x=-inf"},
        {"all NaN", "rows:3 cols:67 x=nan"},
        {"zeros of both signs, infinities and NaN", "rows:9 cols:67 k:9 x=edges+inf+nan"},
        {"subnormals", "rows:3 cols:67 k:9 x=subnormal"},
        {"one NaN, the last", "rows:2 cols:1031 x=last:nan"},
    };
    const Cases standard{
        {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
        {"GPT-2 vocabulary, 8 sequences, sampling from 40", "rows:8 cols:50257 k:40"},
        {"GPT-2 124M, 8192 tokens", "rows:8192 cols:768"},
    };
    const Cases more{
        {"64 MiB in f32: one long row", "rows:1 cols:16777216"},
        {"1 GiB in f32: one long row", "rows:1 cols:268435456"},
        {"mixture of 256 experts, 8 of them, 8192 tokens", "rows:8192 cols:256 k:8"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("rows", 1, 16384, "cols:1024"))});
  }
};

}  // namespace duet
