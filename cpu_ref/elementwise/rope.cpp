// SPDX-License-Identifier: Apache-2.0
// Reference for rope and its backward: serial, in double, the formulas of the contract (ops/elementwise/rope.h) and
// nothing else. A slice is one head of one token.
#include "ops/elementwise/rope.h"

#include "core/registry.h"

namespace duet {
namespace {

// Turns the pairs of a head, which begins at element `first`, by `sign` times the angles of token t. begin: the first
// token of its sequence.
void turn(const auto& p, Inputs::Values from, Slot to, int64_t head, double begin, double sign, Expect& expect) {
  const int64_t first = head * p.D, t = head / p.H % p.T;
  for (int64_t j = 0; j < p.D / 2; ++j) {
    const double angle =
        (begin + static_cast<double>(t)) * std::pow(p.base, -2.0 * static_cast<double>(j) / static_cast<double>(p.D));
    const double c = std::cos(angle), s = sign * std::sin(angle);
    const int64_t i = first + j, k = i + p.D / 2;
    const auto claim = [&](int64_t at, double a, double b, double turned_a, double turned_b) {
      const double terms = std::abs(turned_a) + std::abs(turned_b), value = turned_a + turned_b;
      expect(to, at, value,
             rope::kTermRoundings * terms + std::abs(value) + rope::kAngleError * (std::abs(a) + std::abs(b)));
    };
    claim(i, from[i], from[k], from[i] * c, -from[k] * s);
    claim(k, from[i], from[k], from[k] * c, from[i] * s);
  }
}

}  // namespace

void Rope::reference(Inputs in, int64_t head, Expect& expect) const {
  turn(*this, in[x], y, head, positioned ? in[position][head / (T * H)] : 0, 1, expect);
}
DUET_PROBLEM(Rope);

void RopeBackward::reference(Inputs in, int64_t head, Expect& expect) const {
  turn(*this, in[dy], dx, head, 0, -1, expect);
}
DUET_PROBLEM(RopeBackward);

}  // namespace duet
