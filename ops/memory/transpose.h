// SPDX-License-Identifier: Apache-2.0
// Transposes matrices. x: (batch, rows, cols); y: (batch, cols, rows); row-major, dense; they do not overlap.
#pragma once
#include "core/problem.h"

namespace duet {

struct Transpose {
  static constexpr const char* name = "transpose";
  static constexpr const char* formula = "y[b,j,i] = x[b,i,j]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t batch = 0, rows = 0, cols = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("batch", batch, "matrices");
    field("rows", rows, "rows of each x");
    field("cols", cols, "columns of each x");
  }
  void infer(Shapes s) {
    batch = s[x][0];
    rows = s[x][1];
    cols = s[x][2];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {batch, rows, cols}), y.of(dtype, {batch, cols, rows})};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }                          // elements move bit for bit
  int64_t slices() const { return batch * cols; }                     // a row of y
  void reference(Inputs in, int64_t row_of_y, Expect& expect) const;  // cpu_ref/memory/transpose.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "batch:1 rows:1 cols:1"},
        {"no matrices", "batch:0 rows:3 cols:5"},
        {"no rows", "batch:2 rows:0 cols:5"},
        {"no columns", "batch:2 rows:5 cols:0"},
        {"less than a tile", "batch:3 rows:3 cols:7"},
        {"beside a tile", "batch:2 rows:31 cols:33"},
        {"even, beside a tile", "batch:2 rows:34 cols:62"},
        {"whole tiles", "batch:1 rows:64 cols:64"},
        {"prime, longer than a block", "batch:1 rows:1031 cols:65"},
        {"one column", "batch:1 rows:1031 cols:1"},
        {"one row", "batch:1 rows:1 cols:1031"},
        {"long and thin, several tasks", "batch:3 rows:7 cols:20011"},
        {"edge values, infinities and NaN", "batch:2 rows:31 cols:33 x=edges+inf+nan"},
    };
    const Cases standard{
        {"4096^2: beyond the caches", "batch:1 rows:4096 cols:4096"},
        {"1024^2: in L3", "batch:1 rows:1024 cols:1024"},
        {"ResNet-50 conv1 output, batch 32, NCHW to NHWC", "batch:32 rows:64 cols:12544"},
        {"ResNet-50 conv1 output, batch 32, NHWC to NCHW", "batch:32 rows:12544 cols:64"},
        {"ResNet-50 last stage, batch 32, NCHW to NHWC", "batch:32 rows:2048 cols:49"},
        {"ResNet-50 last stage, batch 32, NHWC to NCHW", "batch:32 rows:49 cols:2048"},
    };
    const Cases more{
        {"ResNet-50 conv1 output, batch 256, NCHW to NHWC", "batch:256 rows:64 cols:12544"},
        {"ResNet-50 input, batch 256, NHWC to NCHW", "batch:256 rows:50176 cols:3"},
    };
    return by_scale(scale, across(kFloatTypes, test), across(kFloatTypes, standard), more,
                    sweep("rows cols", 16, 4096, "batch:1", 2));
  }
};

}  // namespace duet
