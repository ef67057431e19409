// SPDX-License-Identifier: Apache-2.0
// Copies the rows that an index names. x: (rows, cols); index: (n) i32; y: (n, cols); row-major, dense; no two overlap.
// An index outside [0, rows) gives a row of zeros.
#pragma once
#include <algorithm>
#include <string>

#include "core/problem.h"

namespace duet {

struct Gather {
  static constexpr const char* name = "gather";
  static constexpr const char* formula = "y[i,j] = x[index[i],j], 0 where index[i] is outside [0, rows)";
  static constexpr Slot x = input(0, "x"), index = input(1, "index"), y = output(2, "y");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0, n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "rows of x");
    field("cols", cols, "elements of a row");
    field("n", n, "rows of y");
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
    n = s[index][0];
  }
  std::string invalid() const {
    return rows <= INT32_MAX ? "" : "rows: below 2^31, an index is an i32; is " + std::to_string(rows);
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}).touching(std::min(rows, n) * cols),
            index.of(DType::i32, {n}, Fill::below(std::max<int64_t>(1, rows))), y.of(dtype, {n, cols})};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }                          // elements move bit for bit
  int64_t slices() const { return n; }                                // a row of y
  void reference(Inputs in, int64_t row_of_y, Expect& expect) const;  // cpu_ref/memory/gather.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "rows:1 cols:1 n:1"},
        {"no rows of y", "rows:5 cols:7 n:0"},
        {"no rows of x: every index is outside", "rows:0 cols:7 n:6"},
        {"rows of nothing", "rows:5 cols:0 n:6"},
        {"single elements, several tasks", "rows:1031 cols:1 n:40009"},
        {"rows of three, prime", "rows:33 cols:3 n:1031"},
        {"a lane short of a warp, rows repeat", "rows:5 cols:31 n:21"},
        {"a lane over a warp", "rows:11 cols:33 n:66"},
        {"whole packs", "rows:100 cols:64 n:34"},
        {"long rows", "rows:5 cols:1031 n:6"},
        {"long rows in whole packs", "rows:7 cols:2048 n:5"},
        {"indices beyond the rows", "rows:5 cols:33 n:21 index=below:10"},
        {"indices beyond the rows, whole packs", "rows:5 cols:64 n:21 index=below:10"},
        {"single elements, indices beyond the rows", "rows:5 cols:1 n:1031 index=below:10"},
        {"negative indices", "rows:5 cols:16 n:6 index=-1"},
        {"edge values, infinities and NaN", "rows:31 cols:33 n:40 x=edges+inf+nan"},
    };
    const Cases standard{
        {"GPT-2 124M embedding, 8192 tokens", "rows:50257 cols:768 n:8192"},
        {"DLRM on Criteo (arXiv:1906.00091), batch 2048 of 26 features", "rows:1000000 cols:64 n:53248"},
        {"single elements of 64 MiB in f32, all cache lines", "rows:16777216 cols:1 n:1048576"},
    };
    const Cases more{
        {"MovieLens-20M users, f 64, 2^20 ratings", "rows:138493 cols:64 n:1048576"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("n", 16, 262144, "rows:138493 cols:64"))});
  }
};

}  // namespace duet
