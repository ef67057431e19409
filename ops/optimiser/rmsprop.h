// SPDX-License-Identifier: Apache-2.0
// RMSProp (Hinton, Neural Networks for Machine Learning, lecture 6, 2012), in PyTorch's form without momentum.
//   g, p, v: (n), dense, disjoint; lr, the learning rate: (1) in f32. mixed: see ops/optimiser/mixed.h.
// Arithmetic is in f32 or better. The update of p uses v as computed, before it is rounded to dtype.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/optimiser/mixed.h"
#include "ops/optimiser/optimiser_cases.h"

namespace duet {

struct Rmsprop {
  static constexpr const char* name = "rmsprop";
  static constexpr const char* formula = "v = alpha v + (1 - alpha) g^2,  p = p - lr g / (sqrt(v) + eps)";
  static constexpr Slot g = input(0, "g"), lr = input(1, "lr"), p = inout(2, "p"), v = inout(3, "v");
  static constexpr Slot bad = input(4, "bad"), master = inout(5, "master");  // with mixed

  int64_t n = 0;
  DType dtype = DType::f32;
  double alpha = 0.99, eps = 1e-8;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of g, p and v");
    field("n", n, "parameters");
    field.option("alpha", alpha, "share of the mean square that is kept");
    field.option("eps", eps, "keeps the divisor from 0");
    field.option("mixed", mixed, "master parameters and v in f32, p and, but for f16, g in dtype");
  }
  void infer(Shapes s) { n = s[g][0]; }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{
        g.of(mixed::gradient_dtype(dtype, mixed), {n}), lr.of(statistic_dtype(dtype), {1}, Fill::constant(0.01)),
        mixed::parameters(p, dtype, n, mixed), v.of(mixed::state_dtype(dtype, mixed), {n}, Fill::uniform(0, 1))};
    if (mixed) mixed::append(all, bad, master, dtype, n);
    return all;
  }
  double flops() const { return 9.0 * n; }
  //  - v, whose terms are positive: a constant, two products and an addition: 4 roundings in f32.
  //  - p, abs_sum |p| + |update|: half of those from the root, and its own rounding; eps and its addition; a division,
  //    a product and a subtraction: 8.
  // Then the result is rounded to dtype.
  Tolerance tolerance(int slot) const {
    const DType to = slot == p.index || !mixed ? dtype : DType::f32;
    return {.rel = unit_roundoff(to),
            .abs_sum = gamma(slot == v.index ? 4 : 8, unit_roundoff(DType::f32)),
            .abs = underflow(to)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/optimiser/rmsprop.cpp

  static Cases cases(Scale scale) { return optimiser_cases(scale); }
};

}  // namespace duet
