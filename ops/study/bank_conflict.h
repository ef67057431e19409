// SPDX-License-Identifier: Apache-2.0
// A transpose through a tile, whose columns fall into the same place of a memory where `pad` is 0.
//   x: (rows, cols), y: (cols, rows), dense; they do not overlap.
// On a GPU the tile is 32 or 33 words wide: a column of 32 words lies in one bank of shared memory, one of 33 in all of
// them. On the CPU the rows of a tile lie 4 KiB apart, in the same set of the L1 cache, or 4 KiB and a line.
#pragma once
#include "ops/study/study.h"

namespace duet {

struct BankConflict {
  static constexpr const char* name = "study/bank_conflict";
  static constexpr const char* formula = "y[c,r] = x[r,c], through a tile with or without padding";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  bool pad = false;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "rows of x");
    field("cols", cols, "columns of x");
    field.option("pad", pad, "the tile's rows are a bank, or a line of cache, longer");
  }
  std::string invalid() const { return only_f32(dtype); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {rows, cols}), y.of(dtype, {cols, rows})}; }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/study/bank_conflict.cpp

  static Cases cases(Scale scale) {
    const Words pads{"pad:0", "pad:1"};
    return across(pads,
                  by_scale(scale, {{"no rows", "rows:0 cols:7"}, {"tiles, the last short", "rows:37 cols:65"}},
                           {{"4 MiB a tensor", "rows:1024 cols:1024"}, {"in the second cache", "rows:256 cols:256"}},
                           {{"64 MiB a tensor", "rows:4096 cols:4096"}}));
  }
};

}  // namespace duet
