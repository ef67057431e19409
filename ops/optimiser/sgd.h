// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum (Sutskever et al., ICML 2013), in PyTorch's form.
//   g, p, v: (n), dense, disjoint; lr, the learning rate: (1) in f32. mixed: see ops/optimiser/mixed.h.
// Arithmetic is in f32 or better. The update of p uses v as computed, before it is rounded to dtype.
#pragma once
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/optimiser/mixed.h"
#include "ops/statistic.h"

namespace duet {

struct Sgd {
  static constexpr const char* name = "sgd";
  static constexpr const char* formula =
      "d = g + weight_decay p,  v = momentum v + d,  p = p - lr (nesterov ? d + momentum v : v)";
  static constexpr Slot g = input(0, "g"), lr = input(1, "lr"), p = inout(2, "p"), v = inout(3, "v");
  static constexpr Slot bad = input(4, "bad"), master = inout(5, "master");  // with mixed

  int64_t n = 0;
  DType dtype = DType::f32;
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = false, mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of g, p and v");
    field("n", n, "parameters");
    field.option("momentum", momentum, "share of the velocity that is kept");
    field.option("weight_decay", weight_decay, "L2 penalty");
    field.option("nesterov", nesterov, "look ahead along the velocity");
    field.option("mixed", mixed, "master parameters and velocity in f32, p and, but for f16, g in dtype");
  }
  void infer(Shapes s) { n = s[g][0]; }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{g.of(mixed::gradient_dtype(dtype, mixed), {n}),
                                lr.of(statistic_dtype(dtype), {1}, Fill::constant(0.01)),
                                mixed::parameters(p, dtype, n, mixed), v.of(mixed::state_dtype(dtype, mixed), {n})};
    if (mixed) mixed::append(all, bad, master, dtype, n);
    return all;
  }
  double flops() const { return 4.0 * n; }
  // abs_sum is an error in units of u = 2^-24. v: a rounded constant and a product of the momentum, and where there is
  // decay as many of that, and an addition. p: what is subtracted has the error of v, its rounding and a product; for
  // nesterov another constant, product and addition. Then the result is rounded to dtype.
  Tolerance tolerance(int slot) const {
    const DType to = slot == p.index || !mixed ? dtype : DType::f32;
    return {.rel = unit_roundoff(to), .abs_sum = unit_roundoff(DType::f32), .abs = underflow(to)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/optimiser/sgd.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "n:0"},
        {"one parameter", "n:1"},
        {"three parameters", "n:3"},
        {"a lane short of a warp", "n:31"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031"},
        {"no momentum", "n:1031 momentum:0"},
        {"decay", "n:1031 weight_decay:0.1"},
        {"decay and look-ahead", "n:1031 weight_decay:0.1 nesterov:1"},
        {"several tasks, the last short", "n:100003"},
        {"mixed precision, no parameters", "n:0 mixed:1"},
        {"mixed precision, decay and look-ahead", "n:1031 weight_decay:0.1 nesterov:1 mixed:1"},
        {"mixed precision, skipped", "n:33 mixed:1 bad=1"},
    };
    const Cases standard{
        {"ResNet-50", "n:25557032"},
        {"LeNet", "n:62006"},
        {"MLP 784-128-10", "n:101770"},
    };
    const Cases halves{
        {"ResNet-50, mixed precision", "n:25557032 mixed:1"},
    };
    const Cases more{
        {"ResNet-50, decay 1e-4", "n:25557032 weight_decay:1e-4"},
        {"BERT-base", "n:109482240"},
        {"GPT-2 124M", "n:124439808"},
    };
    return by_scale(scale, across(kFloatTypes, test),
                    concat({across(kF32AndBf16, standard), across({"dtype:bf16", "dtype:f16"}, halves)}),
                    across(kF32AndBf16, more));
  }
};

}  // namespace duet
