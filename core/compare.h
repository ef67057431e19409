// SPDX-License-Identifier: Apache-2.0
// Compares the outputs of an implementation with the reference. It is the only comparer, and NaN-safe: it passes only
// elements that it can prove to lie within their bound. Session::check and the replay of a step call it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fill.h"
#include "core/registry.h"

namespace duet {

struct Claim {
  int slot;
  int64_t index;
  double want, abs_sum;
};

// What the reference computes for some slices of a problem, computed once and shared by all implementations of the
// case.
class Expected {
 public:
  // all: every slice. It throws when the reference does not claim each output element exactly once.
  // sampled: of each kind of slices the first ones, the last and one in the middle, and random ones that depend on the
  // seed alone; 4 of a kind at least and up to 64 slices, as many as `work_flops` allows. Where it allows no more than
  // 4 slices, the first and the last of a kind. On all threads.
  static Expected all(const Problem& problem, const HostTensors& inputs);
  static Expected sampled(const Problem& problem, const HostTensors& inputs, uint64_t seed, double work_flops = 2e8) {
    return sampled(problem, inputs.specs(), inputs.values(), seed, work_flops);
  }
  static int64_t sampled_slices(const Problem& problem,
                                double work_flops = 2e8);  // 4 to 64; the least of each kind come on top
  static Expected sampled(const Problem& problem, const std::vector<TensorSpec>& specs,
                          const std::vector<Inputs::Values>& values, uint64_t seed, double work_flops = 2e8);

  const std::vector<Claim>& claims() const { return claims_; }
  int64_t slices() const { return slices_; }
  // What the reference took, in CPU time, which a busy machine does not change: divided among so many threads, but no
  // less than its longest slice.
  double reference_s(int threads) const { return std::max(longest_s_, cpu_s_ / threads); }
  double max_abs_sum(int slot) const;  // of the claims about a tensor

 private:
  std::vector<Claim> claims_;
  int64_t slices_ = 0;
  double cpu_s_ = 0, longest_s_ = 0;
};

struct Check {
  double max_error_ratio = 0;  // the largest |got - want| / bound of all claims
  int64_t slices = 0, elements = 0;
  // How the elements beyond these slices were compared: "reference" (all slices), "projections", the name of a second
  // implementation, or of a training step "op by op", each in one of these ways; or "sampled": they were not.
  std::string coverage = "sampled";
  std::string sampled_reason;  // why they were not; empty otherwise
  std::string failure;  // empty: passed. Otherwise the element with the largest ratio: tensor, index, got, want, bound
  bool passed() const { return failure.empty(); }
};

// got: host copies of all outputs and inouts after one run. bitwise: every element must equal the claim rounded to its
// dtype (for integer fills). Integer outputs are always compared bit for bit. Every floating output is also searched
// for elements that still hold the 0xFF bytes it started with: they were never written.
Check compare(const Problem& problem, const Expected& expected, const HostTensors& got, bool bitwise);

double bound_of(const Tolerance& t, const Claim& claim);

// How compare() assesses one element: |got - claim| / bound, 0 where got is the claim rounded to dtype, infinite where
// the element is not provably within its bound. Up to 1 passes.
double error_ratio(const Claim& claim, DType dtype, const Tolerance& tolerance, double got, bool bitwise = false);

}  // namespace duet
