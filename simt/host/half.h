// SPDX-License-Identifier: Apache-2.0
// The numbers in a register of two 16-bit elements. Only the host's tensor-core products need it.
#pragma once
#include <bit>
#include <cstdint>

namespace duet::simt::host {

inline float bf16_of(uint32_t bits, int e) { return std::bit_cast<float>(bits >> (16 * e) << 16); }
// Without __half2float, which on the host is a call and a loop: the exponent is moved by a product, exact for
// subnormal values too.
inline float f16_of(uint32_t bits, int e) {
  const uint32_t half = bits >> (16 * e) & 0xffffu, magnitude = half & 0x7fffu;
  const float value = magnitude >= 0x7c00u ? std::bit_cast<float>(0x7f800000u | (magnitude & 0x3ffu) << 13)
                                           : std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | (half & 0x8000u) << 16);
}

}  // namespace duet::simt::host
