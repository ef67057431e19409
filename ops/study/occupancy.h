// SPDX-License-Identifier: Apache-2.0
// How much work has to be in flight to hide latencies: y = f(x), where f is `rounds` times v = v + 1.
//   x, y: (n), dense; they do not overlap. rounds 0 is a copy, bound by bandwidth; many rounds are bound by arithmetic.
//   shared  KiB of shared memory that each block of a GPU takes and does not use, so that fewer fit at once; the plan
//           says how many
//   chains  on the CPU: vectors whose multiply-adds one thread has in flight, which depend on each other within a chain
// Exactly one of the two is given.
#pragma once
#include "ops/study/study.h"

namespace duet {

struct Occupancy {
  static constexpr const char* name = "study/occupancy";
  static constexpr const char* formula = "y[i] = x[i] + rounds";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  int64_t rounds = 0, shared = -1, chains = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("rounds", rounds, "multiply-adds of an element, one after the other; 0: a copy");
    field.option("shared", shared, "KiB of shared memory of a block, 0 to 227; -1 on the CPU");
    field.option("chains", chains, "independent vectors of the CPU: 1, 2, 4, 8 or 16; 0 on a GPU");
  }
  std::string invalid() const {
    if ((shared < 0) == (chains == 0)) return "exactly one of shared, for a GPU, and chains, for a CPU, is given";
    if (chains != 0 && chains != 1 && chains != 2 && chains != 4 && chains != 8 && chains != 16)
      return "chains: 1, 2, 4, 8 or 16, is " + std::to_string(chains);
    return first_of({within("shared", shared, -1, 227), within("rounds", rounds, 0, kMaxRounds), only_f32(dtype)});
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, kWhole), y.of(dtype, {n})}; }
  double flops() const { return 2.0 * static_cast<double>(n * rounds); }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/study/occupancy.cpp

  static Cases cases(Scale scale) {
    const Words chains{"chains:1", "chains:2", "chains:4", "chains:8", "chains:16"};
    const Words shared{"shared:0", "shared:16", "shared:32", "shared:64", "shared:100", "shared:200"};
    const Cases sizes{
        {"nothing", "n:0 rounds:3"}, {"prime, longer than a block", "n:2053 rounds:3"}, {"a copy", "n:1031"}};
    if (scale == Scale::test) return concat({across(chains, sizes), across({"shared:0", "shared:64"}, sizes)});
    const Cases compute{{"512 multiply-adds of an element", "n:262144 rounds:512"}};
    const Cases copy{{"16 MiB a tensor", "n:4194304"}};
    return by_scale(scale, {},
                    concat({across(chains, compute), across({"chains:1", "chains:8"}, copy), across(shared, compute),
                            across(shared, copy)}));
  }
};

}  // namespace duet
