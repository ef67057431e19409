// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation over the last axis (arXiv:1910.07467) and its gradients: layer normalisation without
// a mean and without beta, as Llama and models like it have it.
//   x, y, dy, dx: (rows, cols), row-major, dense; gamma, dgamma: (cols); rstd: (rows) in f32. y may be x; dx may be x
//   or dy. Gradients are overwritten. A row of no columns has mean square 0.
// Sums are formed as ops/summation.h says, in f32 or better: where squares add up to more than f32 holds, elements from
// about 1e18 on, rstd may be 0.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct RmsNorm {
  static constexpr const char* name = "rmsnorm";
  static constexpr const char* formula = "rstd[r] = 1 / sqrt(mean_c x[r,c]^2 + eps),  y[r,c] = x[r,c] rstd[r] gamma[c]";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma");
  static constexpr Slot y = output(2, "y").may_be(x), rstd = output(3, "rstd");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, gamma and y");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "added to the mean square");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {  // not of mean square 1
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)), gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            y.of(dtype, {rows, cols}), rstd.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 4.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - The mean square: its sum, whose terms have a rounding each (none where they are squares of bf16 or f16, which
  //    are exact in f32), and 2 for the division.
  //  - rstd: half of the mean square's relative error, and 5 as in cpu_ref/norm/moments.h.
  //  - y: the error of rstd, times |x gamma|, and the rounding of one product; the other one is the rounding to dtype.
  Tolerance tolerance(int slot) const {
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/rmsnorm.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"nothing in each row", "rows:3 cols:0"},
        {"three columns", "rows:33 cols:3"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"a row over a block, a large eps", "rows:257 cols:33 eps:0.5"},
        {"whole packs, a warp for each row", "rows:9 cols:768"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"a block for each row", "rows:2 cols:4096"},
        {"long rows", "rows:2 cols:12289"},
        {"equal elements", "rows:3 cols:768 x=3"},
        {"far from 0 and close together", "rows:3 cols:768 x=9999..10001"},
    };
    const Cases standard{
        {"Llama 2 7B, 256 tokens", "rows:256 cols:4096"},
        {"Qwen3 8B, the 32 heads of 256 tokens", "rows:8192 cols:128"},
    };
    const Cases more{
        {"Llama 2 7B, 16384 tokens", "rows:16384 cols:4096"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("rows", 1, 16384, "cols:4096"))});
  }
};

struct RmsNormBackward {
  static constexpr const char* name = "rmsnorm_backward";
  static constexpr const char* formula =
      "xhat[r,c] = x[r,c] rstd[r],  g[r,c] = dy[r,c] gamma[c],  "
      "dx[r,c] = rstd[r] (g[r,c] - xhat[r,c] mean_j g[r,j] xhat[r,j]),  dgamma[c] = sum_r dy[r,c] xhat[r,c]";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), rstd = input(2, "rstd"), dy = input(3, "dy");
  static constexpr Slot dx = output(4, "dx").may_be(x, dy), dgamma = output(5, "dgamma");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, gamma, dy, dx and dgamma");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)),
            gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            rstd.of(statistic_dtype(dtype), {rows}, Fill::uniform(0.5, 1)),
            dy.of(dtype, {rows, cols}, Fill::uniform(-0.5, 1)),
            dx.of(dtype, {rows, cols}),
            dgamma.of(dtype, {cols})};
  }
  double flops() const { return 9.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h).
  //  - dgamma: that of its sum, whose terms have a rounding of xhat and one of the product.
  //  - dx, times rstd: the error of the sum of g xhat, whose terms have 3 roundings, and 6 of its mean and of what is
  //    formed with it: 2 of the mean, xhat, a product, and two where dx is computed as a g + b x; 3 of g and of the
  //    difference. Then the result is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows + cols; }  // a row of dx; then a column's dgamma
  std::vector<int64_t> parts() const { return {rows, cols}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/norm/rmsnorm.cpp

  static Cases cases(Scale scale) {  // those of RmsNorm, and those of the columns
    const Cases test{
        {"long columns, several parts", "rows:4111 cols:5"},
        {"whole packs, several parts", "rows:131 cols:32"},
        {"a warp for each row, single elements", "rows:19 cols:301"},
        {"a block for each row, whole packs", "rows:9 cols:1024"},
        {"a block for each row, single elements", "rows:2 cols:2051"},
        {"a large block for each row", "rows:2 cols:8192"},
        {"a large block for each row, single elements", "rows:2 cols:6151"},
        {"long rows, whole packs", "rows:2 cols:12296"},
    };
    return concat({without("eps", RmsNorm::cases(scale)), by_scale(scale, across(kFloatTypes, test), {})});
  }
};

}  // namespace duet
