// SPDX-License-Identifier: Apache-2.0
// A sum that knows how far rounding may carry it. References of norms, losses, reductions and gradients of biases and
// tables add up in it, and claim its error() as abs_sum, in units of the roundoff of f32 (kF32Roundoff): the bound then
// follows the terms of each sum. Products, whose references have no time for it, use sum_error() of ops/summation.h.
//
// error() is what the roundings of a correct kernel add up to, with kDeviations standard deviations:
//  - Additions. Each rounds its partial sum S_k, by at most u |S_k| and without a mean: a standard deviation of
//    u / sqrt(3) sqrt(sum S_k^2). The S_k are those of adding up in order. Another order has other partial sums, which
//    wander about a straight line from 0 to the sum: that adds 1/6 root_sum^2 for each addition on average, for which
//    root_sum^2 is allowed. After runs of max_run terms come the additions of a tree, whose squared partial sums add up
//    to 2 sum^2 where all runs are alike (sum^2 + sum^2 / 2 + ...).
//  - Terms that are all alike round alike, where a case names such a fill: an eighth of the worst case. So do squares
//    of bf16 and f16, whose last bits are 0, 1 or 4 of 8: their additions round down more often than up.
//  - Few terms: never more than each addition rounding the sum of the absolute terms.
//  - Terms that are themselves rounded: their errors, as given to add(), are independent of each other.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/summation.h"

namespace duet {

inline const double kF32Roundoff = unit_roundoff(DType::f32);

// n errors that are independent and not larger than 1, as root_sum is the root of the sum of their squares and abs_sum
// is their sum.
inline double independent_sum(double root_sum, double abs_sum) {
  return std::min(kDeviations / std::sqrt(3.0) * root_sum, abs_sum);
}

class BoundedSum {
 public:
  BoundedSum() = default;
  // max_run: terms that a kernel may add up in one chain; see TermSum.
  explicit BoundedSum(int64_t max_run) : terms_(max_run), max_run_(max_run) {}
  // term_error: how far rounding may carry the term itself, in units of u.
  void add(double term, double term_error = 0) {
    terms_.add(term, term_error);
    const double size = std::abs(term);
    abs_sum_ += size;
    square_sum_ += size * size;
    term_error_ += term_error;
    if (size != 0) {
      alike_ = alike_ && (first_ == 0 || term == first_);
      first_ = first_ == 0 ? term : first_;
    }
    ++added_;
    partial_ += term;
    if (in_run_ != 0) partial_squares_ += partial_ * partial_;
    if (++in_run_ != max_run_) return;
    in_run_ = 0;
    partial_ = 0;
  }
  void has_short_squares() { short_squares_ = true; }
  double sum() const { return terms_.sum(); }
  double abs_sum() const { return abs_sum_; }
  double error() const {
    if (added_ == 0) return 0;
    const double chain = static_cast<double>(std::min(added_, max_run_));
    const double additions = static_cast<double>(std::min(added_, max_run_ + kTree)) - 1;
    double squares = partial_squares_ + (chain - 1) * square_sum_;
    if (added_ > max_run_) squares += 2 * (sum() * sum() + square_sum_);
    double random = kDeviations / std::sqrt(3.0) * std::sqrt(squares);
    if (alike_ || short_squares_) random += chain / 8 * std::abs(sum());
    return std::min(random, additions * abs_sum_) + independent_sum(terms_.root_sum(), term_error_);
  }

 private:
  static constexpr int64_t kTree = 64;  // additions behind a run: ops/summation.h
  TermSum terms_;                       // its root_sum is that of the terms' errors
  double abs_sum_ = 0, square_sum_ = 0, term_error_ = 0, partial_ = 0, partial_squares_ = 0, first_ = 0;
  bool alike_ = true;  // all terms that are not 0
  bool short_squares_ = false;
  int64_t max_run_ = INT64_MAX - kTree, added_ = 0, in_run_ = 0;
};

}  // namespace duet
