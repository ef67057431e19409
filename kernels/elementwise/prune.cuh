// SPDX-License-Identifier: Apache-2.0
// What the kernels of prune share: the size of an element by its bits, and the rule of a group of four.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// Absolute values of floats are ordered as their bits are. Every NaN counts as the number after infinity.
__device__ __forceinline__ unsigned weight_size(float w) { return min(__float_as_uint(w) & 0x7fffffffu, 0x7f800001u); }
__device__ __forceinline__ unsigned weight_size(__nv_bfloat16 w) {
  const auto bits = static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&w));
  return min(bits & 0x7fffu, 0x7f81u);
}
__device__ __forceinline__ unsigned weight_size(__half w) {
  const auto bits = static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&w));
  return min(bits & 0x7fffu, 0x7c01u);
}
template <class T>
inline constexpr int kSizeBits = sizeof(T) == 4 ? 31 : 15;

// Whether element `own` of a group of `count` is kept.
template <class T>
__device__ __forceinline__ bool kept_of_four(const T* group, int own, int count) {
  const unsigned size = weight_size(group[own]);
  int before = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (k < count) {
      const unsigned other = weight_size(group[k]);
      before += other > size || (other == size && k < own);
    }
  return before < 2;
}

}  // namespace duet::DUET_DEVICE
