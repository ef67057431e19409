// SPDX-License-Identifier: Apache-2.0
// The angles of rope in turns, as 64-bit fixed point: a whole turn is 2^64, so that overflow of the product with the
// token's number removes the whole turns, and nothing is rounded however long the sequence is. For cpu_ref/ and
// kernels/; the reference computes angles in double.
#pragma once
#include <cmath>
#include <cstdint>

namespace duet::rope {

inline constexpr double kMaxBase = 1e15;

// v in [0, 1] in units of 2^-64; the largest such number for 1.
inline uint64_t fixed_point(double v) { return v >= 1 ? UINT64_MAX : static_cast<uint64_t>(std::ldexp(v, 64)); }

// By how much pair j turns from token to token, base^(-2j/D) / (2 pi) of a turn: wrong by less than 2^-54, the rounding
// of a double.
inline uint64_t turns_per_token(int64_t j, int64_t D, double base) {
  constexpr double kTwoPi = 6.283185307179586476925;
  return fixed_point(std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(D)) / kTwoPi);
}

// sin and cos of r in [-pi/4, pi/4], from S. Moshier, Cephes, sinf and cosf: within 1.5 ulp in f32, with z = r r,
//   sin r = r + r z (kSin[0] + z (kSin[1] + z kSin[2])),  cos r = 1 - z / 2 + z z (kCos[0] + z (kCos[1] + z kCos[2])).
inline constexpr float kSin[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
inline constexpr float kCos[] = {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};
inline constexpr float kAngleOfBit = 1.46291807926715968e-9f;  // 2 pi / 2^32

}  // namespace duet::rope
