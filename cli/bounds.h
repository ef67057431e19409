// SPDX-License-Identifier: Apache-2.0
// duet doctor --bounds: how far the bounds of the contracts lie above the errors of correct implementations. A bound
// that is too wide passes wrong results. Called by main.cpp and by tests/must_fail.
//
// The rule: on each case, the bound of an output is at most kMaxLooseness times the largest error that a correct
// implementation makes there. Correct implementations are those of the CPU that are built here, and the reference when
// it rounds: its results to their dtype, and its sums as a kernel may form them (core/term_sum.h).
//  - A bound of 0, or one for underflow alone, is exact, and so is an output most of whose elements its dtype
//    represents exactly: there is nothing to compare with.
//  - Of few elements the largest error is a matter of luck: that of a loss is often 20 times less than the next one's.
//    A case of which fewer than kMinCompared elements are compared is drawn several times, up to kMaxDraws; where that
//    is not enough, the largest error on all cases of the op with this dtype counts for it.
//  - Outputs whose bound may be wider are listed in bounds.cpp, each with its reason and how much wider.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/context.h"
#include "core/registry.h"

namespace duet {

inline constexpr double kMaxLooseness = 8;
inline constexpr int64_t kMinCompared = 256;
inline constexpr int kMaxDraws = 32;
inline constexpr double kMaxDrawnWork = 2e8;  // bytes and operations of all draws of a case

// One output of one case: the largest error of each correct implementation as a share of the bound.
struct BoundUse {
  std::string op, output, dtype, label;
  int64_t compared = 0;  // elements, of all draws together
  double max_looseness = kMaxLooseness;
  std::string wider_because;  // not empty: why max_looseness is more than that of others
  std::map<std::string, double> shares;
  double largest() const;
};
// The inputs and claims are those of bench_all. Outputs whose bound is exact are left out.
std::vector<BoundUse> bound_uses(const Problem& problem, Context& cpu);
// Per use, how many times the bound is larger than the largest error that counts for it.
std::vector<double> looseness(const std::vector<BoundUse>& uses);
inline bool too_wide(const BoundUse& use, double looseness) { return !(looseness <= use.max_looseness); }

// What comparing a case costs, in bytes and operations: its inputs are drawn twice, and the reference computes the
// slices that bench_all compares twice. Beyond kMaxComparedWork it takes minutes.
inline constexpr double kMaxComparedWork = 4e9;
double compared_work(const Problem& problem);

struct BoundsOptions {
  std::vector<std::string> ops;  // empty: all
  std::string scale;             // test, standard or full; empty: the standard cases that take little time
  bool json = false;
  bool asked = false;  // --bounds was given
};
int run_bounds(const BoundsOptions& options);  // 0, or 1 where a bound is too wide

}  // namespace duet
