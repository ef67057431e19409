// SPDX-License-Identifier: Apache-2.0
// Mean and variance as the references of layernorm and batchnorm compute them, and the mean square as that of rmsnorm
// does: serial and in double, with the errors that a correct kernel may make, in units of the roundoff of f32. The
// contracts derive the bounds that follow.
#pragma once
#include <cmath>
#include <cstdint>

#include "ops/bounded_sum.h"

namespace duet {

struct ReferenceMoments {
  double mean, mean_error, variance, variance_error, rstd, rstd_error;
};

// Of n values at(0) .. at(n - 1). Nothing has mean 0 and variance 0.
ReferenceMoments reference_moments(int64_t n, double eps, auto&& at) {
  const auto total = static_cast<double>(std::max<int64_t>(1, n));
  BoundedSum sum(kRun), squares(kRun);
  ReferenceMoments m{};

  // The additions; 3 roundings of the mean's size cover the division, and the merging of means of parts.
  for (int64_t k = 0; k < n; ++k) sum.add(at(k));
  m.mean = sum.sum() / total;
  m.mean_error = (sum.error() + 3 * sum.abs_sum()) / total;

  // A deviation is rounded, which counts twice in its square, and the square. A wrong mean shifts all deviations, whose
  // sum is 0: that is of second order. Where the means of parts are merged, their difference has the rounding of a
  // mean, which counts twice.
  for (int64_t k = 0; k < n; ++k) {
    const double square = (at(k) - m.mean) * (at(k) - m.mean);
    squares.add(square, 3 * square);
  }
  m.variance = squares.sum() / total;
  m.variance_error = (squares.error() + 2 * squares.abs_sum()) / total +
                     2 * sum.abs_sum() / total * std::sqrt(m.variance) + m.mean_error * m.mean_error * kF32Roundoff;

  // Half of the variance's relative error; half a rounding of the addition of eps, and a root and a division, or an
  // rsqrt of 2 ulp = 4u.
  m.rstd = 1 / std::sqrt(m.variance + eps);
  m.rstd_error = m.rstd * (m.variance_error / 2 / (m.variance + eps) + 5);
  return m;
}

// The error of (x - mean) rstd gamma + beta, before its last rounding.
inline double normalised_error(const ReferenceMoments& m, double x, double gamma, double beta) {
  const double scale = std::abs(gamma) * m.rstd, deviation = std::abs(x - m.mean);
  return scale * m.mean_error + std::abs(gamma) * deviation * m.rstd_error +
         scale * (2 * (std::abs(x) + std::abs(m.mean)) + deviation) + std::abs(beta);
}

struct ReferenceRms {
  double rstd, rstd_error;
};

// Of n values at(0) .. at(n - 1) of `dtype`: 1 / sqrt(mean square + eps). Nothing has mean square 0.
ReferenceRms reference_rms(DType dtype, int64_t n, double eps, auto&& at) {
  const bool exact_squares = size_of(dtype) == 2;
  const auto total = static_cast<double>(std::max<int64_t>(1, n));
  BoundedSum squares(kRun);
  if (exact_squares) squares.has_short_squares();
  for (int64_t k = 0; k < n; ++k) squares.add(at(k) * at(k), exact_squares ? 0 : at(k) * at(k));
  const double mean_square = squares.sum() / total;
  const double rstd = 1 / std::sqrt(mean_square + eps);
  return {rstd, rstd * ((squares.error() / total + 2 * mean_square) / 2 / (mean_square + eps) + 5)};
}

}  // namespace duet
