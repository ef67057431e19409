// SPDX-License-Identifier: Apache-2.0
// A residual connection and the rmsnorm that follows it, in one pass over memory, as Llama and models like it have them
// twice in each layer: s = x + residual is written for the next connection, and y is what rmsnorm makes of it. The
// gradient is that of the two ops: rmsnorm_backward of s, then add.
//   x, residual, s, y: (rows, cols), row-major, dense; gamma: (cols); rstd: (rows) in f32. s may be x or residual. A
//   row of no columns has mean square 0.
// s is rounded as in add_layernorm (ops/norm/add_layernorm.h) before it is normalised.
#pragma once
#include "ops/norm/rmsnorm.h"

namespace duet {

struct AddRmsNorm {
  static constexpr const char* name = "add_rmsnorm";
  static constexpr const char* formula =
      "s[r,c] = x[r,c] + residual[r,c],  rstd[r] = 1 / sqrt(mean_c s[r,c]^2 + eps),  y[r,c] = s[r,c] rstd[r] gamma[c]";
  static constexpr Slot x = input(0, "x"), residual = input(1, "residual"), gamma = input(2, "gamma");
  static constexpr Slot s = output(3, "s").may_be(x, residual), y = output(4, "y"), rstd = output(5, "rstd");

  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  double eps = 1e-5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, residual, gamma, s and y");
    field("rows", rows, "independent rows");
    field("cols", cols, "elements of each");
    field.option("eps", eps, "added to the mean square");
  }
  std::string invalid() const { return eps > 0 ? "" : "eps must be above 0, is " + std::to_string(eps); }
  void infer(Shapes shapes) {
    rows = shapes[x][0];
    cols = shapes[x][1];
  }
  std::vector<TensorSpec> tensors() const {  // not of mean square 1
    return {x.of(dtype, {rows, cols}, Fill::uniform(-1, 3)),
            residual.of(dtype, {rows, cols}, Fill::uniform(-2, 1)),
            gamma.of(dtype, {cols}, Fill::uniform(0.5, 1.5)),
            s.of(dtype, {rows, cols}),
            y.of(dtype, {rows, cols}),
            rstd.of(statistic_dtype(dtype), {rows})};
  }
  double flops() const { return 5.0 * rows * cols; }

  // s is determined to the bit, except for subnormal numbers. The others as in rmsnorm, of s.
  Tolerance tolerance(int slot) const {
    if (slot == s.index) return {.abs = underflow(dtype)};
    return {.rel = unit_roundoff(slot == y.index ? dtype : DType::f32),
            .abs_sum = kF32Roundoff,
            .abs = slot == y.index ? underflow(dtype) : 0};
  }
  int64_t slices() const { return rows; }
  void reference(Inputs in, int64_t row, Expect& expect) const;  // cpu_ref/norm/add_rmsnorm.cpp

  static Cases cases(Scale scale) { return RmsNorm::cases(scale); }
};

}  // namespace duet
