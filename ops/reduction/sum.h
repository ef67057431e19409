// SPDX-License-Identifier: Apache-2.0
// Sums over one axis. x: (rows, cols), row-major, dense. axis = 1: y: (rows), the sum of each row; axis = 0: y: (cols),
// the sum of each column, as in a bias gradient. An empty sum is 0. Sums are formed as ops/summation.h says; y is
// rounded to dtype once.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"

namespace duet {

struct Sum {
  static constexpr const char* name = "sum";
  static constexpr const char* formula = "axis 1: y[r] = sum_c x[r,c];  axis 0: y[c] = sum_r x[r,c]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  int64_t axis = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "rows of x");
    field("cols", cols, "columns of x");
    field.option("axis", axis, "the axis that is summed over: 0 or 1");
  }
  std::string invalid() const {
    return axis == 0 || axis == 1 ? "" : "axis must be 0 or 1, is " + std::to_string(axis);
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  int64_t length() const { return axis == 1 ? cols : rows; }  // terms of each sum
  std::vector<TensorSpec> tensors() const {  // x has both signs and a mean of 0.5: a lost part of the sum shows
    return {x.of(dtype, {rows, cols}, Fill::uniform(-0.5, 1.5)), y.of(dtype, {axis == 1 ? rows : cols})};
  }
  double flops() const { return static_cast<double>(rows) * static_cast<double>(cols); }
  // abs_sum is an error in units of u = 2^-24: that of the additions (ops/bounded_sum.h). Then y is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return axis == 1 ? rows : cols; }   // one sum
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/reduction/sum.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"nothing in each row", "rows:3 cols:0"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"beside a warp", "rows:31 cols:33"},
        {"whole packs", "rows:9 cols:256"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"one long row, several tasks", "rows:1 cols:100003"},
        {"many short rows, two tasks", "rows:353 cols:47"},
        {"rows of three", "rows:33 cols:3"},
        {"one infinity, the last", "rows:5 cols:1031 x=last:-inf"},
        {"one NaN, the last", "rows:1 cols:100003 x=last:nan"},
        {"columns: one infinity, the last", "rows:1031 cols:5 axis:0 x=last:inf"},
        {"columns: one NaN, the last", "rows:33 cols:31 axis:0 x=last:nan"},
        {"columns: one element", "rows:1 cols:1 axis:0"},
        {"columns: no rows", "rows:0 cols:7 axis:0"},
        {"columns: none", "rows:3 cols:0 axis:0"},
        {"columns: beside a warp", "rows:33 cols:31 axis:0"},
        {"columns: whole packs", "rows:33 cols:64 axis:0"},
        {"columns: prime, longer than a block", "rows:1031 cols:5 axis:0"},
        {"columns: few rows of many", "rows:3 cols:4099 axis:0"},
        {"columns: one long one", "rows:100003 cols:1 axis:0"},
    };
    const Cases beyond_f16{
        // whose range holds no sum of 16 Mi terms
        {"64 MiB in f32: beyond the caches", "rows:1 cols:16777216"},
    };
    const Cases standard{
        {"GPT-2 124M bias gradient, 8192 tokens", "rows:8192 cols:768 axis:0"},
        {"GPT-2 124M, a sum per token", "rows:8192 cols:768"},
        {"4 KiB in f32: the cost of a call", "rows:1 cols:1024"},
    };
    const Cases more{
        {"1 GiB in f32", "rows:1 cols:268435456"},
        {"1 MiB in f32: in L2 or L3", "rows:1 cols:262144"},
    };
    return by_scale(scale, across(kFloatTypes, test),
                    concat({across(kF32AndBf16, beyond_f16), across(kFloatTypes, standard)}), across(kF32AndBf16, more),
                    sweep("cols", 64, 16777216, "rows:1"));
  }
};

}  // namespace duet
