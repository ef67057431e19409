// SPDX-License-Identifier: Apache-2.0
// The Euclidean norm of a tensor, such as all gradients in one piece of memory. x: (n), dense; y: (1) in f32. The norm
// of no elements is 0. Squares are not scaled: a sum beyond the range of f32 is infinite. Sums are formed as
// ops/summation.h says.
#pragma once
#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct Norm2 {
  static constexpr const char* name = "norm2";
  static constexpr const char* formula = "y = sqrt(sum_i x[i]^2)";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), y.of(statistic_dtype(dtype), {1})}; }
  double flops() const { return 2.0 * n; }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h): that of the sum of squares, each rounded, of which
  // the root leaves half. The root rounds to f32, of a sum that was itself rounded to f32.
  Tolerance tolerance() const {
    return {.rel = 1.5 * unit_roundoff(DType::f32), .abs_sum = kF32Roundoff, .abs = underflow(DType::f32)};
  }
  int64_t slices() const { return 1; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/reduction/norm2.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"three elements", "n:3"},
        {"a lane short of a warp", "n:31"},
        {"a lane over a warp", "n:33"},
        {"prime, longer than a block", "n:1031"},
        {"several tasks, the last short", "n:100003"},
        {"one NaN, the last", "n:100003 x=last:nan"},
    };
    const Cases standard{
        {"ResNet-50", "n:25557032"},
        {"LeNet", "n:62006"},
        {"4 KiB in f32: the cost of a call", "n:1024"},
    };
    const Cases more{
        {"BERT-base", "n:109482240"},
        {"GPT-2 124M", "n:124439808"},
        {"1 GiB an f32 tensor", "n:268435456"},
    };
    return by_scale(scale, across(kFloatTypes, test), across(kF32AndBf16, standard), across(kF32AndBf16, more),
                    sweep("n", 64, 16777216));
  }
};

}  // namespace duet
