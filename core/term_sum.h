// SPDX-License-Identifier: Apache-2.0
// A sum as the references form it. `duet doctor --bounds` has the references add as a correct kernel may, and compares
// what they give with the bounds.
#pragma once
#include <cmath>
#include <cstdint>

namespace duet {

enum class Accumulation : uint8_t {
  exact,        // in double: the reference
  chain,        // one term after the other in f32
  matrix_unit,  // blocks of 8 products, added to a sum that is cut off to f32
};
// Of every TermSum in the process. Only set while no other thread computes references.
inline Accumulation accumulation = Accumulation::exact;

// While it lives, references add in this way.
class ScopedAccumulation {
 public:
  explicit ScopedAccumulation(Accumulation a) { accumulation = a; }
  ~ScopedAccumulation() { accumulation = Accumulation::exact; }
  ScopedAccumulation(const ScopedAccumulation&) = delete;
  ScopedAccumulation& operator=(const ScopedAccumulation&) = delete;
};

// A sum, and the root of the sum of its squared terms.
class TermSum {
 public:
  TermSum() = default;
  // max_run: terms that a kernel may add up in one chain; the sums of the chains are added in double.
  explicit TermSum(int64_t max_run) : max_run_(max_run) {}
  void add(double term) { add(term, term); }
  // error_scale: what the term's error is relative to, where that is not the term.
  void add(double term, double error_scale) {
    square_sum_ += error_scale * error_scale;
    if (accumulation == Accumulation::exact) {
      sum_ += term;
    } else {
      add_rounded(term);
    }
  }
  double sum() const { return sum_ + finished_; }
  double root_sum() const { return std::sqrt(square_sum_); }

 private:
  void add_rounded(double term) {
    constexpr int kBlock = 8;
    ++added_;
    if (accumulation == Accumulation::chain) {
      sum_ = static_cast<float>(sum_) + static_cast<float>(term);
    } else {
      sum_ += term;
      const auto nearest = static_cast<float>(sum_);
      if (added_ % kBlock == 0)
        sum_ = std::abs(static_cast<double>(nearest)) > std::abs(sum_) ? std::nextafter(nearest, 0.0f) : nearest;
    }
    if (added_ != max_run_) return;
    finished_ += sum_;
    sum_ = 0;
    added_ = 0;
  }
  double sum_ = 0, square_sum_ = 0, finished_ = 0;
  int64_t max_run_ = -1, added_ = 0;
};

}  // namespace duet
