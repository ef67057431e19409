// SPDX-License-Identifier: Apache-2.0
// GELU and its slope in double, for the references of gelu and linear. arXiv:1606.08415.
#pragma once
#include <cmath>
#include <numbers>

namespace duet::gelu {

// A value, and the absolute values that were added up to it, against which its error counts.
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

// Roundings in f32 that a value may suffer, of its abs_sum. Forward: an exp or erf and what is made of it 6u to 8u, the
// argument's 5 roundings, which the curve damps to less than half, one addition and two products. Slope: s 6u, the fraction
// beside it 15u, two arguments' roundings 9u, and an addition and two products.
inline constexpr int kFormRoundings = 14, kSlopeRoundings = 33;

}  // namespace duet::gelu
