// SPDX-License-Identifier: Apache-2.0
// The one comparer. NaN-safe: passes only what it can prove to lie within its bound.
#pragma once
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

// The reference's answer to some slices of a problem, computed once and shared by all implementations of the case.
class Expected {
 public:
  // every: all slices, each output element must be claimed exactly once (else throws: the reference is wrong).
  // Otherwise the first, the last and sampled slices, as many as `work_flops` pays for; deterministic by seed.
  static Expected all(const Problem& problem, const HostTensors& inputs);
  static Expected sampled(const Problem& problem, const HostTensors& inputs, uint64_t seed, double work_flops = 2e8);

  const std::vector<Claim>& claims() const { return claims_; }
  int64_t slices() const { return slices_; }

 private:
  std::vector<Claim> claims_;
  int64_t slices_ = 0;
};

struct Check {
  double max_error_ratio = 0;  // largest |got - want| / bound over the claims; the worst element
  int64_t slices = 0, elements = 0;
  std::string failure;  // empty: passed. Otherwise the first worst element: tensor, index, got, want, bound
  bool passed() const { return failure.empty(); }
};

// got: images of all outputs and inouts after one application. bitwise: every element must equal the claim rounded to
// its dtype (integer fills). Integer outputs are always compared bit for bit. Every float output is also scanned for
// elements that still hold the 0xFF bytes it started with.
Check compare(const Problem& problem, const Expected& expected, const HostTensors& got, bool bitwise);

double bound_of(const Tolerance& t, const Claim& claim);

}  // namespace duet
