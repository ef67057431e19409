// SPDX-License-Identifier: Apache-2.0
// A row of scores in the registers of the four lanes that share it, as mma.sync and wgmma leave it: what the kernels on
// tensor cores have in common (flash_half.cu, flash_warpgroup.cuh, flash_half_backward.cu). A lane has, for each n, the
// columns 8 n + lane % 4 * 2 and the next.
#pragma once
#include "kernels/attention/flash.h"
#include "kernels/vector.cuh"
#include "simt/approximate.h"

namespace duet::DUET_DEVICE {

template <class T>
__device__ __forceinline__ uint32_t pack_pair(float first, float second) {
  const Pack<T, 2> pair{{T(first), T(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Reduces over the 4 lanes that share rows; called by all lanes.
template <class Op>
__device__ __forceinline__ float row_reduce(float v) {
  v = Op{}(v, __shfl_xor_sync(0xffffffffu, v, 2));
  return Op{}(v, __shfl_xor_sync(0xffffffffu, v, 1));
}

// In the following, `row` points to a lane's first element of a row: of column 8 n + lane % 4 * 2 + e it has row[4 n +
// e]. The pointer is into an array whose indices are constants after unrolling, so that it stays in registers.

// Scores outside of the columns [from, to) become -inf. kStarts: from may be above 0.
template <int kColumns, bool kStarts>
__device__ __forceinline__ void mask_row(float* row, int from, int to) {
  const int mine = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = 8 * n + mine + e;
      if ((kStarts && column < from) || column >= to) row[4 * n + e] = -INFINITY;
    }
}

// A step of the online softmax: scores become exponentials relative to the new maximum, and are added to `sum`, which
// is of this lane's columns. Returns the factor of what was summed before. factor: of scores, positive, with log2 e.
// kMayBeEmpty: a row may have no column so far. Its maximum stays -inf, and nothing is relative to that.
template <int kColumns, bool kMayBeEmpty>
__device__ __forceinline__ float add_to_softmax(float* row, float factor, float& max, float& sum) {
  float larger = max;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) larger = fmaxf(larger, row[4 * n + e]);
  larger = row_reduce<MaxOp>(larger);
  const float level = kMayBeEmpty ? RunningSoftmax::base(larger) : larger;
  const float base = factor * level, change = exp2_approx(factor * (max - level));
  max = larger;
  float part = 0;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& mine = row[4 * n + e];
      mine = exp2_approx(fmaf(factor, mine, -base));
      part += mine;
    }
  sum = fmaf(sum, change, part);
  return change;
}

// Writes this lane's features of a row, times factor, to `to`, a row of D elements, from `feature` on; kCount pairs.
// pairs: `to` allows 2-element accesses.
template <int kCount, class T>
__device__ __forceinline__ void store_row(const float* row, float factor, T* to, int64_t D, bool pairs, int feature) {
  feature += static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const int c = feature + 8 * n;
    const T one = T(row[4 * n] * factor), two = T(row[4 * n + 1] * factor);
    if (pairs) {
      if (c < D) store_pack(to + c, Pack<T, 2>{{one, two}});
    } else {
      if (c < D) to[c] = one;
      if (c + 1 < D) to[c + 1] = two;
    }
  }
}

// Whether rows of the tensors allow 16-byte accesses, and those that are written 2-element accesses.
template <class T>
bool rows_aligned(const Flash& p, std::initializer_list<const T*> tensors) {
  return p.D % 8 == 0 && std::ranges::all_of(tensors, [](const T* t) { return aligned16(t); });
}
template <class T>
bool pairs_aligned(const Flash& p, std::initializer_list<const T*> tensors) {
  return p.D % 2 == 0 &&
         std::ranges::all_of(tensors, [](const T* t) { return reinterpret_cast<uintptr_t>(t) % (2 * sizeof(T)) == 0; });
}

}  // namespace duet::DUET_DEVICE
