// SPDX-License-Identifier: Apache-2.0
// GELU and its slope in double, for the references of gelu and of linear layers with it. arXiv:1606.08415.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>

namespace duet::gelu {

// A value, and the sum of the absolute values from which it was added up: its error is relative to that sum.
struct Term {
  double value, abs_sum;
};

// tanh form: x / 2 (1 + tanh(w)), w = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2w).
inline constexpr double kCube = 0.044715;
inline double inner(double x) { return std::sqrt(2 * std::numbers::inv_pi) * (x + kCube * x * x * x); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline Term tanh_form(double x) {
  return {x * sigmoid(2 * inner(x)), std::abs(x) / 2 * (1 + std::abs(std::tanh(inner(x))))};
}
inline Term tanh_slope(double x) {
  const double s = sigmoid(2 * inner(x)), other = sigmoid(-2 * inner(x));  // 1 - s, without cancellation
  const double rise = 2 * std::sqrt(2 * std::numbers::inv_pi) * (1 + 3 * kCube * x * x);
  return {s + x * s * other * rise, 1 + std::abs(x * s * other * rise)};
}

// erf form: x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2.
inline double phi(double x) { return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2; }
inline Term erf_form(double x) {
  return {x / 2 * std::erfc(-x / std::numbers::sqrt2),
          std::abs(x) / 2 * (1 + std::abs(std::erf(x / std::numbers::sqrt2)))};
}
inline Term erf_slope(double x) {
  return {std::erfc(-x / std::numbers::sqrt2) / 2 + x * phi(x), 1 + std::abs(x) * phi(x)};
}

// How many roundings in f32 a value may have, relative to its abs_sum.
//  - Forward: 6u to 8u for an exp or erf and what is computed from it; the 5 roundings of the argument, of which the
//    curve leaves less than half; an addition and two products.
//  - Slope: 6u for s; 15u for the fraction that is added to it; 9u for the roundings of two arguments; an addition and
//    two products.
inline constexpr int kFormRoundings = 14, kSlopeRoundings = 33;

// The same of one slope, in units of u: of kSlopeRoundings 24 are of the fraction that is added to s.
inline double slope_error(const Term& slope) { return kSlopeRoundings - 24 + 24 * (slope.abs_sum - 1); }

// The error of the approximate tanh of GPUs: relative to t it is up to 2^-11 (PTX, tanh.approx.f32), and where it
// rounds to 1 the error is taken to be at most twice what tanh lacks to 1.
inline double approximate_tanh_error(double t) { return std::min(0x1p-11 * std::abs(t), 2 * (1 - std::abs(t))); }
// What it causes in the tanh form, and in its slope.
inline double approximate_form_error(double x) { return approximate_tanh_error(std::tanh(inner(x))) * std::abs(x) / 2; }
inline double approximate_slope_error(double x) {
  const double t = std::tanh(inner(x)), rise = std::sqrt(2 * std::numbers::inv_pi) * (1 + 3 * kCube * x * x);
  return approximate_tanh_error(t) * std::abs(0.5 - x * t * rise);
}

}  // namespace duet::gelu
