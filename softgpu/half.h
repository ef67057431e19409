// SPDX-License-Identifier: Apache-2.0
// Floating point of 16 and 8 bits, converted as the GPU does. NaN becomes 0x7fff.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace duet::softgpu {

enum class Rounding : uint8_t { nearest, zero };

inline float f32_of_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

template <Rounding kRounding = Rounding::nearest>
inline uint16_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t up = kRounding == Rounding::nearest ? 0x7fff + (bits >> 16 & 1) : 0;
  return value != value ? uint16_t{0x7fff} : static_cast<uint16_t>((bits + up) >> 16);
}

inline float f32_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  const float special = std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // As a float with the exponent of a half, scaled by 2^112: exact for subnormal halves too.
  const float finite = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return rest >= 0x7c00 ? special : std::bit_cast<float>(sign | std::bit_cast<uint32_t>(finite));
}

template <Rounding kRounding = Rounding::nearest>
inline uint16_t f16_of(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (value != value) return 0x7fff;
  if (magnitude == std::numeric_limits<float>::infinity()) return static_cast<uint16_t>(sign | 0x7c00);
  // In units of the result's last place, 2^(exponent - 10): at most 2048, exact.
  const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
  const float scaled = std::ldexp(magnitude, 10 - exponent);
  const float whole = kRounding == Rounding::nearest ? std::nearbyint(scaled) : std::trunc(scaled);
  // The leading bit, 1024, adds one to the field of the exponent, as does a carry to 2048.
  const int result = (exponent + 14) * 1024 + static_cast<int>(whole);
  const int largest = kRounding == Rounding::nearest ? 0x7c00 : 0x7bff;
  return static_cast<uint16_t>(sign | (result >= 0x7c00 ? largest : result));
}

// 1 sign, 4 bits of exponent with bias 7, 3 of fraction; 0x7f and 0xff are NaN, and there is no infinity.
inline float f32_of_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                   : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return bits & 0x80 ? -size : size;
}

}  // namespace duet::softgpu
