// SPDX-License-Identifier: Apache-2.0
// The sum of a product's terms, for the references of gemm and linear, with what its error is relative to
// (ops/summation.h): the root of the sum of the squared terms, as long as partial sums stay as small as those of terms
// that were drawn independently of their place. In a training step they need not: gradients of weights add up one
// sequence of tokens after the other, and the terms of a sequence may have one sign. The bound then follows the partial
// sums.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/summation.h"

namespace duet {

class ProductSum {
 public:
  void add(double term) { add(term, term); }
  // error_scale: what the term's error is relative to, where that is not the term.
  void add(double term, double error_scale) {
    terms_.add(term, error_scale);
    partial_ += term;
    partial_squares_ += partial_ * partial_;
    ++added_;
  }
  double sum() const { return terms_.sum(); }
  // Or, where that is more, the root mean square of the partial sums beyond |sum|, in the unit of the bound.
  double root_sum() const {
    const double mean_square = partial_squares_ / static_cast<double>(std::max<int64_t>(1, added_));
    return std::max(terms_.root_sum(), (std::sqrt(mean_square) - std::abs(sum())) / kDirect);
  }

 private:
  TermSum terms_;
  double partial_ = 0, partial_squares_ = 0;
  int64_t added_ = 0;
};

}  // namespace duet
