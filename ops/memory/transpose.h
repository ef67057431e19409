// SPDX-License-Identifier: Apache-2.0
// x: (batch, rows, cols), y: (batch, cols, rows), row-major, dense; y does not overlap x.
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

  static std::vector<Case<Transpose>> cases(Scale scale) {
    if (scale == Scale::test)
      return across(&Transpose::dtype, kFloats,
                    {{"one element", {1, 1, 1}},
                     {"no matrices", {0, 3, 5}},
                     {"no rows", {2, 0, 5}},
                     {"no columns", {2, 5, 0}},
                     {"less than a tile", {3, 3, 7}},
                     {"beside a tile", {2, 31, 33}},
                     {"prime, longer than a block", {1, 1031, 65}},
                     {"one column", {1, 1031, 1}},
                     {"one row", {1, 1, 1031}},
                     {"long and thin, several tasks", {3, 7, 20011}}});
    auto all = across(&Transpose::dtype, kFloats,
                      {{"4096^2: beyond the caches", {1, 4096, 4096}},
                       {"1024^2: in L3", {1, 1024, 1024}},
                       {"ResNet-50 conv1 output, batch 32, NCHW to NHWC", {32, 64, 12544}},
                       {"ResNet-50 conv1 output, batch 32, NHWC to NCHW", {32, 12544, 64}},
                       {"ResNet-50 last stage, batch 32, NCHW to NHWC", {32, 2048, 49}},
                       {"ResNet-50 last stage, batch 32, NHWC to NCHW", {32, 49, 2048}}});
    if (scale == Scale::full)
      all.insert(all.end(), {{"ResNet-50 conv1 output, batch 256, NCHW to NHWC", {256, 64, 12544}},
                             {"ResNet-50 input, batch 256, NHWC to NCHW", {256, 50176, 3}}});
    return all;
  }
};

}  // namespace duet
