// SPDX-License-Identifier: Apache-2.0
// Shrinks gradients to a norm (arXiv:1211.5063), in PyTorch's form. norm: (1) in f32, the norm of all gradients
// (norm2); g: (n), dense. Arithmetic in f32 or better.
#pragma once
#include <limits>
#include <string>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/statistic.h"

namespace duet {

struct ClipGradNorm {
  static constexpr const char* name = "clip_grad_norm";
  static constexpr const char* formula = "g[i] = g[i] min(1, max_norm / (norm + 1e-6))";
  static constexpr Slot norm = input(0, "norm"), g = inout(1, "g");
  static constexpr double kGuard = 1e-6;

  int64_t n = 0;
  DType dtype = DType::f32;
  double max_norm = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of g");
    field("n", n, "elements");
    field.option("max_norm", max_norm, "the largest norm that stays as it is");
  }
  std::string invalid() const {
    if (max_norm > 0 && max_norm <= std::numeric_limits<double>::max()) return {};
    return "max_norm " + std::to_string(max_norm) + ": a finite norm above 0 is allowed";
  }
  void infer(Shapes s) { n = s[g][0]; }
  std::vector<TensorSpec> tensors() const {  // the gradients are about twice too long
    return {norm.of(statistic_dtype(dtype), {1}, Fill::constant(2.1 * max_norm)), g.of(dtype, {n})};
  }
  double flops() const { return static_cast<double>(n); }
  // Two constants, an addition, a division and a product: 5 roundings in f32. Then g is rounded to dtype.
  Tolerance tolerance() const {
    return {.rel = gamma(5, unit_roundoff(DType::f32)) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/optimiser/clip_grad_norm.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"three elements, left as they are", "n:3 norm=0.7"},
        {"a lane short of a warp", "n:31"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031"},
        {"another norm", "n:1031 max_norm:0.25"},
        {"several tasks, the last short", "n:100003"},
    };
    const Cases standard{
        {"ResNet-50", "n:25557032"},
        {"LeNet", "n:62006"},
    };
    const Cases more{
        {"BERT-base", "n:109482240"},
        {"GPT-2 124M", "n:124439808"},
    };
    return by_scale(scale, across(kFloatTypes, test), across(kF32AndBf16, standard), across(kF32AndBf16, more));
  }
};

}  // namespace duet
