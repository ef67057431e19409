// SPDX-License-Identifier: Apache-2.0
// Random numbers in sequence, for the generated data sets. Each sample has a stream of its own, so that a smaller data
// set is a prefix of a larger one.
#pragma once
#include <cmath>
#include <cstddef>
#include <numbers>

#include "core/philox.h"

namespace duet {

class Dice {
 public:
  Dice(uint64_t seed, int64_t sample) : key_(seed), next_(static_cast<uint64_t>(sample) << 12) {}
  double uniform(double lo, double hi) { return lo + (hi - lo) * (philox_bits(next_++, key_) + 0.5) * 0x1p-32; }
  size_t below(size_t n) { return static_cast<size_t>(uniform(0, static_cast<double>(n))); }
  double normal() {  // Box and Muller
    const double r = std::sqrt(-2 * std::log(uniform(0, 1)));
    return r * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }

 private:
  uint64_t key_, next_;
};

}  // namespace duet
