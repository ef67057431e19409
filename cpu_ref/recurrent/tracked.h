// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the references of recurrent layers: values in double that carry the deviation of their error
// (RecurrentBase::unit). For walks.h.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/term_sum.h"

namespace duet::tracked {

// A value and the deviation of its error, in the units of the contract. Every operation rounds, and therefore adds one
// unit of its result. e takes the errors of the operands as independent. Over many steps they are not: most of what is
// left of old roundings lies in the direction that fades least, as the state itself does, and its parts add up. So a
// value has kDraws errors with signs as well, which follow the same operations; each rounding has another sign in each
// of them. Half of their mean square is the square of the deviation where it is the larger one. Half: so few draws
// scatter, and independent errors are not to have a wider bound for that.
inline constexpr int kDraws = 8;
using Draws = std::array<double, kDraws>;
struct Value {
  double v = 0, e = 0;
  Draws s{};
  double deviation() const {
    double squares = 0;
    for (const double error : s) squares += error * error;
    return std::max(e, std::sqrt(squares / (2 * kDraws)));
  }
};
inline double square(double v) { return v * v; }
inline double root(double a, double b, double c) { return std::sqrt(a * a + b * b + c * c); }

inline constexpr std::array<Draws, 1 << kDraws> kSigns = [] {
  std::array<Draws, 1 << kDraws> all{};
  for (size_t bits = 0; bits < all.size(); ++bits)
    for (size_t k = 0; k < kDraws; ++k) all[bits][k] = (bits >> k & 1) != 0 ? 1 : -1;
  return all;
}();
// A value that was rounded: its signs are a hash of it. unit: what the rounding amounts to.
Value rounded(double v, double e, double unit, auto&& error) {
  auto bits = std::bit_cast<uint64_t>(v);
  bits = (bits ^ bits >> 32) * 0x9E3779B97F4A7C15;
  const Draws& signs = kSigns[bits >> (64 - kDraws)];
  Value value{v, e};
  for (size_t k = 0; k < kDraws; ++k) value.s[k] = error(k) + signs[k] * unit;
  return value;
}
inline Value exact(double v) { return {v, 0}; }
inline Value operator+(const Value& a, const Value& b) {
  const double v = a.v + b.v;
  return rounded(v, root(a.e, b.e, v), v, [&](size_t k) { return a.s[k] + b.s[k]; });
}
inline Value operator-(const Value& a, const Value& b) {
  const double v = a.v - b.v;
  return rounded(v, root(a.e, b.e, v), v, [&](size_t k) { return a.s[k] - b.s[k]; });
}
inline Value operator*(const Value& a, const Value& b) {
  const double v = a.v * b.v;
  return rounded(v, root(a.v * b.e, b.v * a.e, v), v, [&](size_t k) { return a.v * b.s[k] + b.v * a.s[k]; });
}
// tanh and logistic may have an absolute error of 1 unit, so that 1 - 2 / (1 + exp(2 x)) is allowed.
inline Value tanh(const Value& a) {
  const double t = std::tanh(a.v), slope = 1 - t * t;
  return rounded(t, root(slope * a.e, 1, 0), 1, [&](size_t k) { return slope * a.s[k]; });
}
inline Value logistic(const Value& a) {
  const double s = 1 / (1 + std::exp(-a.v)), slope = s * (1 - s);
  return rounded(s, root(slope * a.e, 1, 0), 1, [&](size_t k) { return slope * a.s[k]; });
}
// A sum of products. It has the error of each term once, those of the additions, and one rounding at its end. This one
// takes the errors of its terms as independent. They are so as well where their factors have both signs, and nothing to
// do with them: in gradients of weights.
class PlainSum {
 public:
  // deviation: of b.
  void add(double a, double b, double deviation) {
    terms_.add(a * b);
    square_ += square(a * deviation);
  }
  void add(double a, double deviation_of_a, double b, double deviation_of_b) {
    terms_.add(a * b);
    square_ += square(a * deviation_of_b) + square(b * deviation_of_a);
  }
  double sum() const { return terms_.sum(); }
  double unit(const auto& p, int64_t count) const {  // of what the sum itself rounds
    return std::hypot(p.units_of_sum(static_cast<double>(count), sum(), terms_.root_sum()), sum());
  }
  double error(double unit) const { return std::sqrt(square_ + square(unit)); }

 private:
  TermSum terms_;
  double square_ = 0;
};
// A sum that carries the errors with signs as well.
class Sum {
 public:
  void add(double a, const Value& b) {
    plain_.add(a, b.v, b.e);
    for (size_t k = 0; k < kDraws; ++k) s_[k] += a * b.s[k];
  }
  Value value(const auto& p, int64_t count) const {
    const double unit = plain_.unit(p, count);
    return rounded(plain_.sum(), plain_.error(unit), unit, [&](size_t k) { return s_[k]; });
  }

 private:
  PlainSum plain_;
  Draws s_{};
};

using Row = std::vector<Value>;
using Sums = std::vector<Sum>;
inline Row zeros(int64_t n) { return Row(static_cast<size_t>(n)); }
inline Sums sums(int64_t n) { return Sums(static_cast<size_t>(n)); }
auto& at(auto& row, int64_t i) { return row[static_cast<size_t>(i)]; }

}  // namespace duet::tracked
