// SPDX-License-Identifier: Apache-2.0
// The largest element so far and its place, for max, argmax and their variants. NaN ranks above everything; of equal
// elements the one of the lowest place counts (ops/reduction/max.h).
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

struct Largest {
  float value = -INFINITY;
  int place = INT32_MAX;  // INT32_MAX as long as nothing is above -inf

  __device__ __forceinline__ static bool above(float a, float b) { return !(a <= b) && b == b; }
  // Elements are added in the order of their places.
  __device__ __forceinline__ void add(float v, int at) {
    const bool take = above(v, value);
    value = take ? v : value;
    place = take ? at : place;
  }
  // With those of other places, in any order.
  __device__ __forceinline__ void merge(float v, int at) {
    const bool take = above(v, value) || (!above(value, v) && at < place);
    value = take ? v : value;
    place = take ? at : place;
  }
  // Called by all 32 lanes; every lane has the result.
  __device__ __forceinline__ void merge_warp() {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const float v = __shfl_xor_sync(0xffffffffu, value, distance);
      const int at = __shfl_xor_sync(0xffffffffu, place, distance);
      merge(v, at);
    }
  }
};

// Where a result goes: the value as T, or its place as int. Where all elements are -inf, it is the first.
template <class T>
struct StoreLargest {
  T* y;  // (results)
  __device__ __forceinline__ void operator()(int64_t i, const Largest& l) const { y[i] = T(l.value); }
};
template <>
struct StoreLargest<int> {
  int* index;  // (results)
  __device__ __forceinline__ void operator()(int64_t i, const Largest& l) const {
    index[i] = l.place == INT32_MAX ? 0 : l.place;
  }
};

}  // namespace duet::DUET_DEVICE
