// SPDX-License-Identifier: Apache-2.0
// What it costs to start work: `nodes` pieces of almost no work, one after the other.
//   x, y: (nodes, 64), dense; they do not overlap. Node k computes row k.
// On a GPU each node is a kernel of two warps, launched one by one or as the nodes of one graph. On the CPU each is a
// parallel_for of one tiny part per thread, which the threads share that the pool has awake, or a mere call, which is
// what is left without it.
#pragma once
#include "ops/study/study.h"

namespace duet {

struct Launch {
  static constexpr const char* name = "study/launch";
  static constexpr const char* formula = "y[k,c] = x[k,c] + 1, c < 64, a launch for each k";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.cpu = false, .gpu = false};  // launches take the time
  static constexpr int64_t kCols = 64;

  int64_t nodes = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("nodes", nodes, "launches");
  }
  std::string invalid() const { return first_of({within("nodes", nodes, 0, 100000), only_f32(dtype)}); }
  void infer(Shapes s) { nodes = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {nodes, kCols}, kWhole), y.of(dtype, {nodes, kCols})}; }
  double flops() const { return static_cast<double>(nodes * kCols); }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return nodes; }
  void reference(Inputs in, int64_t node, Expect& expect) const;  // cpu_ref/study/launch.cpp

  static Cases cases(Scale scale) {
    return by_scale(
        scale, {{"nothing", "nodes:0"}, {"one", "nodes:1"}, {"a few", "nodes:7"}},
        {{"a hundred", "nodes:100"}, {"one", "nodes:1"}, {"ten", "nodes:10"}, {"a thousand", "nodes:1000"}});
  }
};

}  // namespace duet
