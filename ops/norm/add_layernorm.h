// SPDX-License-Identifier: Apache-2.0
// A residual connection and the layer normalisation that follows it, in one pass over memory: s = x + residual is
// written for the next connection, and y is what layernorm makes of it. As two ops, add and layernorm
// (ops/norm/layernorm.h), they move five tensors; this one moves four. The gradient is that of the two ops:
// layernorm_backward of s, then add.
//   x, residual, s, y: (rows, cols), row-major, dense; gamma, beta: (cols); mean, rstd: (rows) in f32. s may be x or
//   residual. A row of no columns has mean 0 and variance 0.
// s is rounded to f32, then to dtype, before it is normalised, so that y is the layernorm of the s that is stored.
#pragma once
#include "ops/norm/layernorm.h"

namespace duet {

struct AddLayerNorm {
  static constexpr const char* name = "add_layernorm";
  static constexpr const char* formula =
      "s[r,c] = x[r,c] + residual[r,c],  mean[r] = mean_c s[r,c],  "
      "rstd[r] = 1 / sqrt(mean_c (s[r,c] - mean[r])^2 + eps),  "
      "y[r,c] = (s[r,c] - mean[r]) rstd[r] gamma[c] + beta[c]";
  static constexpr Slot x = input(0, "x"), residual = input(1, "residual"), gamma = input(2, "gamma"),
                        beta = input(3, "beta");
  static constexpr Slot s = output(4, "s").may_be(x, residual), y = output(5, "y"), mean = output(6, "mean"),
                        rstd = output(7, "rstd");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, residual, gamma, beta, s and y");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "added to the variance");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes shapes) {
    rows = shapes[x][0];
    cols = shapes[x][1];
  }
  std::vector<TensorSpec> tensors() const {  // neither mean 0 nor variance 1
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)),
            residual.of(dtype, {rows, cols}, Fill::uniform(-2, 1)),
            gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            beta.of(dtype, {cols}),
            s.of(dtype, {rows, cols}),
            y.of(dtype, {rows, cols}),
            mean.of(statistic_dtype(dtype), {rows}),
            rstd.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 9.0 * rows * cols; }

  // s is determined to the bit, except for subnormal numbers. The others as in layernorm, of s.
  Tolerance tolerance(int slot) const {
    if (slot == s.index) return {.abs = underflow(dtype)};
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/add_layernorm.cpp

  static Cases cases(Scale scale) { return LayerNorm::cases(scale); }
};

}  // namespace duet
