// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the last axis (arXiv:1607.06450) and its gradients.
//   x, y, dy, dx: (rows, cols), row-major, dense; gamma, beta, dgamma, dbeta: (cols); mean, rstd: (rows) in f32. y may
//   be x; dx may be x or dy. Gradients are overwritten. A row of no columns has mean 0 and variance 0.
// Sums are formed as ops/summation.h says. Variances are computed from deviations: mean(x^2) - mean^2 cancels where the
// mean is large.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct LayerNorm {
  static constexpr const char* name = "layernorm";
  static constexpr const char* formula =
      "mean[r] = mean_c x[r,c],  rstd[r] = 1 / sqrt(mean_c (x[r,c] - mean[r])^2 + eps),  "
      "y[r,c] = (x[r,c] - mean[r]) rstd[r] gamma[c] + beta[c]";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), beta = input(2, "beta");
  static constexpr Slot y = output(3, "y").may_be(x), mean = output(4, "mean"), rstd = output(5, "rstd");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, gamma, beta and y");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "added to the variance");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {  // neither mean 0 nor variance 1
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)),
            gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            beta.of(dtype, {cols}),
            y.of(dtype, {rows, cols}),
            mean.of(statistic_dtype(dtype), {rows}),
            rstd.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 8.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). The reference derives those of the statistics where
  // it computes them (cpu_ref/norm/moments.h). y has
  //  - the error of the mean, times |gamma| rstd, and that of rstd, times |gamma (x - mean)|;
  //  - its own roundings: those of the deviation and two products; or, where y is computed as x a + (beta - mean a), of
  //    a, whose error multiplies the deviation, of both products, which are larger, and of the difference.
  // Then y is rounded to dtype.
  Tolerance tolerance(int slot) const {
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/layernorm.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element: its own mean", "rows:1 cols:1"},
        {"no rows", "rows:0 cols:7"},
        {"nothing in each row", "rows:3 cols:0"},
        {"three columns", "rows:33 cols:3"},
        {"a lane short of a warp", "rows:3 cols:31"},
        {"a row over a block, a large eps", "rows:257 cols:33 eps:0.5"},
        {"whole packs, a warp for each row", "rows:9 cols:768"},
        {"prime, longer than a block", "rows:5 cols:1031"},
        {"a block for each row", "rows:2 cols:3072"},
        {"long rows", "rows:2 cols:12289"},
        {"equal elements", "rows:3 cols:768 x=3"},
        {"far from 0 and close together", "rows:3 cols:768 x=9999..10001"},
    };
    const Cases standard{
        {"GPT-2 124M, 8192 tokens", "rows:8192 cols:768"},
        {"BERT-base, 256 tokens", "rows:256 cols:768"},
        {"GPT-3 175B, 1024 tokens", "rows:1024 cols:12288"},
    };
    const Cases more{
        {"Transformer base, 25000 tokens", "rows:25000 cols:512"},
    };
    return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                   by_scale(scale, {}, {}, {}, sweep("rows", 1, 16384, "cols:768"))});
  }
};

struct LayerNormBackward {
  static constexpr const char* name = "layernorm_backward";
  static constexpr const char* formula =
      "xhat[r,c] = (x[r,c] - mean[r]) rstd[r],  g[r,c] = dy[r,c] gamma[c],  "
      "dx[r,c] = rstd[r] (g[r,c] - mean_j g[r,j] - xhat[r,c] mean_j g[r,j] xhat[r,j]),  "
      "dgamma[c] = sum_r dy[r,c] xhat[r,c],  dbeta[c] = sum_r dy[r,c]";
  static constexpr Slot x = input(0, "x"), gamma = input(1, "gamma"), mean = input(2, "mean"), rstd = input(3, "rstd");
  static constexpr Slot dy = input(4, "dy"), dx = output(5, "dx").may_be(x, dy), dgamma = output(6, "dgamma"),
                        dbeta = output(7, "dbeta");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, gamma, dy, dx, dgamma and dbeta");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
  }
  void infer(Shapes s) {
    rows = s[x][0];
    cols = s[x][1];
  }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {rows, cols}),
            gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            mean.of(statistic_dtype(dtype), {rows}, Fill::uniform(-0.5, 0.5)),
            rstd.of(statistic_dtype(dtype), {rows}, Fill::uniform(0.5, 2)),
            dy.of(dtype, {rows, cols}, Fill::uniform(-0.5, 1)),
            dx.of(dtype, {rows, cols}),
            dgamma.of(dtype, {cols}),
            dbeta.of(dtype, {cols})};
  }
  double flops() const { return 13.0 * rows * cols; }

  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). H = (|x| + |mean|) rstd bounds |xhat|.
  //  - dgamma, dbeta: those of their sums. A term of dgamma has 2 roundings of xhat, of H, and a product.
  //  - dx, times rstd: the errors of both sums, that of g xhat times |xhat|; a term g has 1 rounding, g xhat has 4.
  //    Then, where dx is computed as a g + b x + c (as batchnorm's is), 3 of a and 1 of a g; 6 of the sum of g: a, a
  //    mean, a product, c and two sums; 8 of the sum of g xhat: 5 of b, and b x or b mean, and two sums. All of b is
  //    relative to H.
  // Then the result is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return rows + cols; }  // a row of dx; then a column's dgamma and dbeta
  std::vector<int64_t> parts() const { return {rows, cols}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/norm/layernorm.cpp

  static Cases cases(Scale scale) {  // those of LayerNorm, and those of the columns
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
    return concat({without("eps", LayerNorm::cases(scale)), by_scale(scale, across(kFloatTypes, test), {})});
  }
};

}  // namespace duet
