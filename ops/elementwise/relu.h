// SPDX-License-Identifier: Apache-2.0
// The rectifier and its gradient. x, y, dy, dx: (n), dense; y may be x, dx may be x or dy. The slope at 0 is 0.
// What NaN gives is undefined, because libraries differ; no case has NaN.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr const char* formula = "y[i] = max(x[i], 0)";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), y.of(dtype, {n})}; }
  double flops() const { return static_cast<double>(n); }
  Tolerance tolerance() const { return {.abs = underflow(dtype)}; }  // nothing is rounded; subnormals may be flushed
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/relu.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"edge values and infinities", "n:1031 x=edges+inf"},
    };
    return elementwise_cases(scale, odd);
  }
};

struct ReluBackward {
  static constexpr const char* name = "relu_backward";
  static constexpr const char* formula = "dx[i] = x[i] > 0 ? dy[i] : 0";
  static constexpr Slot x = input(0, "x"), dy = input(1, "dy"), dx = output(2, "dx").may_be(x, dy);
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x, dy and dx");
    field("n", n, "elements");
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}), dy.of(dtype, {n}), dx.of(dtype, {n})}; }
  double flops() const { return static_cast<double>(n); }
  Tolerance tolerance() const { return {.abs = underflow(dtype)}; }  // as Relu
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/relu.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"zeros pass nothing on", "n:33 x=0"},
        {"negative zeros pass nothing on", "n:33 x=-0"},
        {"infinities and NaN of gradients that are not passed on", "n:1031 dy=edges+inf+nan"},
    };
    return elementwise_cases(scale, odd);
  }
};

}  // namespace duet
