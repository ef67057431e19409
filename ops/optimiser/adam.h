// SPDX-License-Identifier: Apache-2.0
// Adam (arXiv:1412.6980), and AdamW, whose decay does not pass through the moments (arXiv:1711.05101), both in
// PyTorch's form.
//   g, p, m, v: (n), dense, disjoint; lr, the learning rate: (1) in f32; step: (1) i32, the number of steps done, which
//   is increased before it is used.
//   mixed: see ops/optimiser/mixed.h; a bad step is not counted.
//   max_norm: above 0, gradients are clipped as clip_grad_norm does, while they are read: g stays as it is. norm: (1)
//   in f32, the norm of all gradients (norm2).
// Arithmetic is in f32 or better. The update of p uses m and v as computed, before they are rounded to dtype.
#pragma once
#include <functional>
#include <limits>
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/optimiser/mixed.h"
#include "ops/optimiser/optimiser_cases.h"

namespace duet {

template <bool kDecoupled>
struct AdamOf {
  static constexpr const char* name = kDecoupled ? "adamw" : "adam";
  static constexpr const char* formula =
      kDecoupled ? "t = step + 1,  d = clip g,  m = beta1 m + (1 - beta1) d,  v = beta2 v + (1 - beta2) d^2,  "
                   "p = p (1 - lr weight_decay) - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps),  "
                   "clip = max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1"
                 : "t = step + 1,  d = clip g + weight_decay p,  m = beta1 m + (1 - beta1) d,  "
                   "v = beta2 v + (1 - beta2) d^2,  p = p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps),  "
                   "clip = max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1";
  static constexpr Slot g = input(0, "g"), lr = input(1, "lr"), step = inout(2, "step");
  static constexpr Slot p = inout(3, "p"), m = inout(4, "m"), v = inout(5, "v");
  static constexpr Slot bad = input(6, "bad"), master = inout(7, "master");  // with mixed

  int64_t n = 0;
  DType dtype = DType::f32;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, max_norm = 0;
  bool mixed = false;

  bool clips() const { return max_norm > 0; }
  Slot norm() const { return input(mixed ? 8 : 6, "norm"); }  // where it clips

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of g, p, m and v");
    field("n", n, "parameters");
    field.option("beta1", beta1, "share of the mean that is kept");
    field.option("beta2", beta2, "share of the mean square that is kept");
    field.option("eps", eps, "keeps the divisor from 0");
    field.option("weight_decay", weight_decay, "decay of the parameters");
    field.option("max_norm", max_norm, "the largest norm of the gradients that stays as it is; 0 clips nothing");
    field.option("mixed", mixed, "master parameters, m and v in f32, p and, but for f16, g in dtype");
  }
  std::string invalid() const {
    for (const auto& [named, beta] : {std::pair("beta1 ", beta1), {"beta2 ", beta2}})
      if (!(beta >= 0 && beta < 1)) return named + std::to_string(beta) + ": 0 or more and below 1 is allowed";
    if (max_norm >= 0 && max_norm <= std::numeric_limits<double>::max()) return {};
    return "max_norm " + std::to_string(max_norm) + ": allowed are 0, which clips nothing, and norms above it";
  }
  void infer(Shapes s) { n = s[g][0]; }
  std::vector<TensorSpec> tensors() const {
    const DType state = mixed::state_dtype(dtype, mixed);
    std::vector<TensorSpec> all{g.of(mixed::gradient_dtype(dtype, mixed), {n}),
                                lr.of(statistic_dtype(dtype), {1}, Fill::constant(0.01)),
                                step.of(DType::i32, {1}),
                                mixed::parameters(p, dtype, n, mixed),
                                m.of(state, {n}),
                                v.of(state, {n}, Fill::uniform(0, 1))};
    if (mixed) mixed::append(all, bad, master, dtype, n);
    if (clips())  // the gradients are about twice too long
      all.push_back(norm().of(statistic_dtype(dtype), {1}, Fill::constant(2.1 * max_norm)));
    return all;
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != step.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(bits % 1000); };
  }
  double flops() const { return (kDecoupled ? 15.0 : 14.0) * n + (clips() ? n : 0); }
  // Roundings, relative to abs_sum; that of p is an error in units of u = 2^-24:
  //  - m: d = g + weight_decay p has a constant, a product and an addition; the moment has two of each, less one: 6.
  //  - v: d twice, three products, a constant and an addition: 11.
  //  - p, of the step: those of m; 8 of the step size: step, learning rate and its correction, an expm1 of 2 ulp = 4u
  //    at an argument with 2 roundings; 8 of the root: half of v's error (which the reference weighs) and of a
  //    correction's, its own, and eps; 2 of a division and a product. 24 in all. AdamW's decay has 3, and what is left
  //    of p another.
  // A clipped gradient has 5 more (see clip_grad_norm), v, its square, 10, and p, of m and half of v, 10.
  static constexpr int kClipRoundings = 5;
  Tolerance tolerance(int slot) const {
    if (slot == step.index) return {};
    const DType to = slot == p.index || !mixed ? dtype : DType::f32;
    const int clip = clips() ? kClipRoundings : 0;
    const int roundings = slot == m.index ? 6 + clip : slot == v.index ? 11 + 2 * clip : 1;
    return {.rel = unit_roundoff(to), .abs_sum = gamma(roundings, unit_roundoff(DType::f32)), .abs = underflow(to)};
  }
  int64_t slices() const { return chunks(n) + 1; }  // the last one: step
  std::vector<int64_t> parts() const { return {chunks(n), 1}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/optimiser/adam.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"the first step", "n:33 step=0"},
        {"no gradient", "n:31 g=0"},
        {"other constants, decay", "n:1031 beta1:0.8 beta2:0.95 eps:1e-6 weight_decay:0.1"},
        {"mixed precision, other constants, decay", "n:1031 beta1:0.8 beta2:0.95 eps:1e-6 weight_decay:0.1 mixed:1"},
        {"clipped", "n:1031 max_norm:1"},
        {"a norm below the limit", "n:33 max_norm:1 norm=0.7"},
        {"mixed precision, clipped, decay", "n:1031 weight_decay:0.1 max_norm:0.25 mixed:1"},
        {"mixed precision, clipped, skipped", "n:33 max_norm:1 mixed:1 bad=1 norm=inf"},
    };
    const Cases more{
        {"GPT-2 124M, as published, mixed precision", "bf16 n:124439808 beta2:0.95 weight_decay:0.1 mixed:1"},
        {"the same, with gradients clipped", "bf16 n:124439808 beta2:0.95 weight_decay:0.1 max_norm:1 mixed:1"},
    };
    return concat(
        {optimiser_cases(scale), by_scale(scale, across(kFloatTypes, test), {}, more, sweep("n", 64, 16777216))});
  }
};
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

}  // namespace duet
