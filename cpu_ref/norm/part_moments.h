// SPDX-License-Identifier: Apache-2.0
// Mean and variance from those of parts, for the tuned code of batchnorm and layernorm.
#pragma once

namespace duet {

// Count, mean and sum of squared deviations of a set of numbers. add joins another set (Chan, Golub, LeVeque 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double all = count + n, difference = other_mean - mean;
    mean += difference * n / all;
    squares += other_squares + difference * difference * count * n / all;
    count = all;
  }
};

}  // namespace duet
