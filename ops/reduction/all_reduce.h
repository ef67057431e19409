// SPDX-License-Identifier: Apache-2.0
// The sum or mean over replicas, which every replica receives: what data-parallel training does with gradients. All
// replicas lie on one device: x, y: (replicas, n), row-major, dense; y may be x. Sums are formed in f32 or better, in
// any order. Over a link between R devices, the best algorithms move 2 (R - 1) / R of n elements to and from each.
//   There is no cuda.nccl: NCCL reduces between GPUs, and every implementation here runs on one.
#pragma once
#include "core/attributes.h"
#include "core/problem.h"
#include "ops/bounded_sum.h"

namespace duet {

enum class ReduceOp : uint8_t { sum, mean };
inline std::vector<std::string> names_of(ReduceOp) { return {"sum", "mean"}; }

struct AllReduce {
  static constexpr const char* name = "all_reduce";
  static constexpr const char* formula = "y[r,i] = sum_s x[s,i] (op=mean: / replicas)";
  static constexpr Slot x = input(0, "x"), y = output(1, "y").may_be(x);

  int64_t replicas = 1, n = 0;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("replicas", replicas, "copies that are added up");
    field("n", n, "elements of each");
    field.option("op", op, "what is formed over the replicas");
  }
  void infer(Shapes s) {
    replicas = s[x][0];
    n = s[x][1];
  }
  std::string invalid() const { return replicas < 1 ? "replicas " + std::to_string(replicas) + ": 1 or more" : ""; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {replicas, n}), y.of(dtype, {replicas, n})}; }
  double flops() const { return static_cast<double>(replicas - 1) * n; }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). A mean is a rounding of the factor and one of the
  // product more.
  Tolerance tolerance() const {
    const double u = unit_roundoff(DType::f32), u_out = unit_roundoff(dtype);
    return {.rel = (op == ReduceOp::mean ? 2 * u : 0) + (u_out > u ? u_out : 0),
            .abs_sum = kF32Roundoff * (1 + u_out),
            .abs = underflow(dtype)};
  }
  int64_t slices() const { return n; }                         // an element of all replicas
  void reference(Inputs in, int64_t i, Expect& expect) const;  // cpu_ref/reduction/all_reduce.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one element", "replicas:2 n:1"},
        {"nothing", "replicas:3 n:0"},
        {"one replica", "replicas:1 n:33"},
        {"three replicas, a lane short of a warp", "replicas:3 n:31"},
        {"a lane over a warp", "replicas:4 n:33 op:mean"},
        {"whole packs", "replicas:4 n:64"},
        {"an odd number of replicas, whole packs", "replicas:7 n:256 op:mean"},
        {"longer than a block", "replicas:5 n:1031"},
        {"many replicas", "replicas:33 n:17 op:mean"},
        {"several chunks", "replicas:2 n:33001"},
        {"one NaN, the last", "replicas:3 n:40 x=last:nan"},
    };
    const Cases standard{
        {"DeepBench, 4 replicas", "replicas:4 n:3097600"},
        {"DeepBench, 8 replicas", "replicas:8 n:100000"},
        {"DeepBench, 2 replicas", "replicas:2 n:16777217"},
        {"a bucket of 25 MiB", "replicas:4 n:6553600 op:mean"},
    };
    const Cases more = across({"replicas:2", "replicas:4", "replicas:8"}, {{"DeepBench", "n:100000"},
                                                                           {"DeepBench", "n:3097600"},
                                                                           {"DeepBench", "n:4194304"},
                                                                           {"DeepBench", "n:6553600"},
                                                                           {"DeepBench", "n:16777217"},
                                                                           {"DeepBench", "n:38360000"},
                                                                           {"DeepBench", "n:64500000"}});
    return by_scale(scale, across(kFloatTypes, test), across(kF32AndBf16, standard), across(kFloatTypes, more),
                    sweep("n", 1 << 8, 1 << 20, "replicas:4"));
  }
};

}  // namespace duet
