// SPDX-License-Identifier: Apache-2.0
// Elements as keys: whole numbers in the order of ops/reduction/ranking.h, for top_k. No two keys of a row are equal.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

using RankKey = unsigned long long;  // bits of the value, ordered as numbers; then the complement of the column
inline constexpr unsigned kNanRank = 0xffc00000u;  // of every NaN: above infinity

__device__ __forceinline__ RankKey rank_key(float v, int column) {
  const unsigned bits = __float_as_uint(v == 0 ? 0.0f : v);
  const unsigned rank = v != v ? kNanRank : bits >> 31 ? ~bits : bits | 0x80000000u;
  return RankKey{rank} << 32 | ~static_cast<unsigned>(column);
}
__device__ __forceinline__ float value_of(RankKey key) {
  const auto rank = static_cast<unsigned>(key >> 32);
  return __uint_as_float(rank >> 31 ? rank & 0x7fffffffu : ~rank);
}
__device__ __forceinline__ int column_of(RankKey key) { return static_cast<int>(~static_cast<unsigned>(key)); }

}  // namespace duet::DUET_DEVICE
