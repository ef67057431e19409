// SPDX-License-Identifier: Apache-2.0
// The largest element along one axis, and its place. x: (rows, cols), row-major, dense. axis = 1: one result for each
// row; axis = 0: one for each column. ArgMax: index: i32, the column or row of the largest element, the lowest of
// several.
//   Elements rank as ranking.h says: the largest of elements with a NaN is NaN.
//   There is no largest of nothing: an empty row, or column, is an error.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/reduction/ranking.h"

namespace duet {

namespace ranking {

inline std::string invalid_axis(int64_t rows, int64_t cols, int64_t axis) {
  if (axis != 0 && axis != 1) return "axis must be 0 or 1, is " + std::to_string(axis);
  if (axis == 1 && rows > 0 && cols == 0) return "cols must be at least 1 where there are rows, is 0";
  return axis == 0 && cols > 0 && rows == 0 ? "rows must be at least 1 where there are columns, is 0" : "";
}

inline Cases max_cases(Scale scale) {
  const Cases test{
      {"one element", "rows:1 cols:1"},
      {"no rows", "rows:0 cols:7"},
      {"a lane short of a warp", "rows:3 cols:31"},
      {"beside a warp", "rows:31 cols:33"},
      {"whole packs", "rows:9 cols:256"},
      {"prime, longer than a block", "rows:5 cols:1031"},
      {"long rows, several tasks", "rows:2 cols:33333"},
      {"many short rows", "rows:307 cols:3"},
      {"all equal", "rows:5 cols:1031 x=0.5"},
      {"all negative infinity", "rows:5 cols:1031 x=-inf"},
      {"all NaN", "rows:3 cols:1031 x=nan"},
      {"zeros of both signs, infinities and NaN", "rows:9 cols:67 x=edges+inf+nan"},
      {"subnormals", "rows:9 cols:67 x=subnormal"},
      {"one infinity, the last", "rows:5 cols:1031 x=last:inf"},
      {"one NaN, the last", "rows:1 cols:33331 x=last:nan"},
      {"columns: one element", "rows:1 cols:1 axis:0"},
      {"columns: none", "rows:3 cols:0 axis:0"},
      {"columns: beside a warp", "rows:33 cols:31 axis:0"},
      {"columns: whole packs", "rows:33 cols:64 axis:0"},
      {"columns: whole packs, several parts", "rows:333 cols:64 axis:0"},
      {"columns: prime, longer than a block", "rows:1031 cols:5 axis:0"},
      {"columns: few rows of many", "rows:3 cols:307 axis:0"},
      {"columns: one long one", "rows:20011 cols:1 axis:0"},
      {"columns: all equal", "rows:1031 cols:5 axis:0 x=0.5"},
      {"columns: all negative infinity", "rows:1031 cols:5 axis:0 x=-inf"},
      {"columns: infinities and NaN", "rows:67 cols:9 axis:0 x=edges+inf+nan"},
      {"columns: subnormals", "rows:67 cols:9 axis:0 x=subnormal"},
      {"columns: one NaN, the last", "rows:33 cols:31 axis:0 x=last:nan"},
  };
  const Cases standard{
      {"64 MiB in f32: beyond the caches", "rows:1 cols:16777216"},
      {"GPT-2 124M, 8192 tokens", "rows:8192 cols:768"},
      {"GPT-2 124M, 8192 tokens, by feature", "rows:8192 cols:768 axis:0"},
      {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
      {"4 KiB in f32: the cost of a call", "rows:1 cols:1024"},
  };
  const Cases more{
      {"1 GiB in f32", "rows:1 cols:268435456"},
      {"1 MiB in f32: in L2 or L3", "rows:1 cols:262144"},
  };
  return by_scale(scale, across(kFloatTypes, test), across(kFloatTypes, standard), across(kFloatTypes, more),
                  sweep("cols", 64, 16777216, "rows:1"));
}

}  // namespace ranking

struct Max {
  static constexpr const char* name = "max";
  static constexpr const char* formula = "axis 1: y[r] = max_c x[r,c];  axis 0: y[c] = max_r x[r,c]";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  int64_t axis = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("rows", rows, "rows of x");
    field("cols", cols, "columns of x");
    field.option("axis", axis, "the axis along which the largest is sought: 0 or 1");
  }
  std::string invalid() const { return ranking::invalid_axis(rows, cols, axis); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  int64_t results() const { return axis == 1 ? rows : cols; }
  int64_t length() const { return axis == 1 ? cols : rows; }  // elements behind each result
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, ranking::kFill), y.of(dtype, {results()})};
  }
  double flops() const { return 0; }                                 // comparisons
  Tolerance tolerance() const { return {.abs = underflow(dtype)}; }  // nothing is rounded
  int64_t slices() const { return results(); }                       // one result
  void reference(Inputs in, int64_t i, Expect& expect) const;        // cpu_ref/reduction/max.cpp
  static Cases cases(Scale scale) { return ranking::max_cases(scale); }
};

struct ArgMax {
  static constexpr const char* name = "argmax";
  static constexpr const char* formula =
      "axis 1: index[r] = the first c with x[r,c] = max_k x[r,k];  axis 0: index[c] = the first r with "
      "x[r,c] = max_k x[k,c]";
  static constexpr Slot x = input(0, "x"), index = output(1, "index");
  static constexpr bool exact_on_integers = true;

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  int64_t axis = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("rows", rows, "rows of x");
    field("cols", cols, "columns of x");
    field.option("axis", axis, "the axis along which the largest is sought: 0 or 1");
  }
  std::string invalid() const {
    if (length() > INT32_MAX && (axis == 0 || axis == 1))
      return std::string(axis == 1 ? "cols" : "rows") + " must be at most 2147483647, as index is i32; is " +
             std::to_string(length());
    return ranking::invalid_axis(rows, cols, axis);
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  int64_t results() const { return axis == 1 ? rows : cols; }
  int64_t length() const { return axis == 1 ? cols : rows; }  // elements behind each result
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, ranking::kFill), index.of(DType::i32, {results()})};
  }
  double flops() const { return 0; }                           // comparisons
  Tolerance tolerance() const { return {}; }                   // a whole number
  int64_t slices() const { return results(); }                 // one result
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/reduction/max.cpp
  static Cases cases(Scale scale) { return ranking::max_cases(scale); }
};

}  // namespace duet
