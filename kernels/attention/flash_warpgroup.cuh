// SPDX-License-Identifier: Apache-2.0
// The forward pass of flash_half.cu on Hopper, by wgmma (simt/wgmma.h). A block has 128 queries of a head: two
// warpgroups with 64 each. Four more warps copy the tiles of keys and values to shared memory, two of each in turn, and
// fence (tile_warpgroup.cuh). Scores stay in registers, where they have the layout of the left operand of the next
// product. While the tensor cores add the values of one tile, a warpgroup computes the exponentials of the next one.
// Masks, exponentials and rounding are those of flash_half.cu.
#pragma once
#include "kernels/attention/flash_rows.cuh"
#include "kernels/gemm/tile_warpgroup.cuh"

namespace duet::DUET_DEVICE {

// kD: features, padded with zeros.
template <class T, int kD>
struct FlashWarpgroup {
  static constexpr int kRows = 128, kColumns = kD <= 64 ? 128 : 64;  // queries; keys of a tile, limited by registers
  static constexpr int kMultiply = 256, kPlaces = 2, kThreads = kMultiply + 2 * kPlaces * 32;
  using Queries = SwizzledPanel<true, kRows, kD>;
  using Keys = SwizzledPanel<true, kColumns, kD>;
  using Values = SwizzledPanel<false, kD, kColumns>;  // the sum is over keys: features are contiguous
  static_assert(Keys::kElements == Values::kElements);
  static constexpr int kSharedBytes =
      (Queries::kElements + 2 * kPlaces * Keys::kElements) * int{sizeof(T)} + kSwizzleBytes;
};

// Starts to copy rows of D elements, `stride` apart, of which the first `exist` exist, to a panel with a line for each;
// what does not exist becomes 0. Called by kThreads threads; thread: which of them.
template <class Panel, int kThreads, class T>
__device__ __forceinline__ void copy_rows(T* panel, const T* from, int64_t exist, int64_t D, int64_t stride,
                                          int thread) {
  constexpr int kLines = Panel::kLines, kColumns = Panel::kChunks / 8, kStep = kThreads / 8;
#pragma unroll 8
  for (int g = thread / 8; g < kLines * kColumns; g += kStep) {  // a line of 128 bytes by eight threads
    const int row = g % kLines, chunk = g / kLines * 8 + thread % 8;
    T* to = panel + Panel::offset(row, chunk);
    if (row < exist && chunk * 8 < D)
      cp_async16(to, from + row * stride + chunk * 8);
    else
      store_pack(to, Pack<T>{});
  }
}

// One block per 128 queries of a head. q, k and v allow 16-byte accesses. pairs: y allows 2-element accesses.
template <class T, int kD, class F>
__global__ void __launch_bounds__(FlashWarpgroup<T, kD>::kThreads, 1)
    flash_warpgroup_kernel(F p, Order order, const T* q, const T* k, const T* v, T* y, float* lse, bool pairs) {
  using Shape = FlashWarpgroup<T, kD>;
  using Queries = typename Shape::Queries;
  using Keys = typename Shape::Keys;
  using Values = typename Shape::Values;
  constexpr int kColumns = Shape::kColumns, kPlaces = Shape::kPlaces, kTogether = Shape::kMultiply + 32;
  DUET_DYN_SHARED(T, shared);
  T *tile_q = swizzled_start(shared), *tiles_k = tile_q + Queries::kElements,
    *tiles_v = tiles_k + kPlaces * Keys::kElements;
  // Named barriers: a place is full, or empty again. 0 is that of __syncthreads.
  enum Barrier {
    keys_full = 1,
    keys_empty = keys_full + kPlaces,
    values_full = keys_empty + kPlaces,
    values_empty = values_full + kPlaces
  };
  int head = 0, tile = 0;
  order.place(blockIdx.x, true, head, tile);
  const int i0 = tile * Shape::kRows, t = static_cast<int>(threadIdx.x);
  const int length = static_cast<int>(p.keys_of(head));
  const auto keys_before = [&](int query) { return p.causal ? min(length, query) : length; };
  const auto first_key = [&](int query) { return static_cast<int>(p.first_key(query)); };
  const int begin = first_key(i0) / kColumns, end = (keys_before(i0 + Shape::kRows) + kColumns - 1) / kColumns;
  const int64_t kv = p.k_head(head / p.group);

  copy_rows<Queries, Shape::kThreads>(tile_q, q + p.q_head(head) + i0 * p.line(), p.Tq - i0, p.D, p.line(), t);
  cp_async_commit();
  cp_async_wait<0>();
  if (p.scale < 0) {  // scores are scaled by a positive number, so that the largest score has the largest product
    __syncthreads();
    for (int i = t; i < Queries::kElements; i += Shape::kThreads) tile_q[i] = T(-float(tile_q[i]));
  }
  fence_async_proxy();
  __syncthreads();

  if (t >= Shape::kMultiply) {
    const int warp = (t - Shape::kMultiply) / 32, place = warp % kPlaces;
    const bool keys = warp < kPlaces;
    T* to = (keys ? tiles_k : tiles_v) + place * Keys::kElements;
    const T* from = (keys ? k : v) + kv;
    const int full = (keys ? keys_full : values_full) + place, empty = (keys ? keys_empty : values_empty) + place;
    for (int j = begin + place; j < end; j += kPlaces) {
      if (j >= begin + kPlaces) bar_sync(empty, kTogether);
      const int64_t first = int64_t{j} * kColumns;
      if (keys)
        copy_rows<Keys, 32>(to, from + first * p.line(), length - first, p.D, p.line(), t % 32);
      else
        copy_rows<Values, 32>(to, from + first * p.line(), length - first, p.D, p.line(), t % 32);
      cp_async_commit();
      cp_async_wait<0>();
      fence_async_proxy();
      bar_arrive(full, kTogether);
    }
    return;
  }

  const int lane = t % 32, group = t / 128 * 64,
            first = i0 + group + t % 128 / 32 * 16 + lane / 4;  // query: also first + 8
  // All queries of this warpgroup see the tiles [whole_begin, whole_end) whole.
  const int whole_begin = (first_key(i0 + group + 63) + kColumns - 1) / kColumns;
  const int whole_end = keys_before(i0 + group + 1) / kColumns;
  const float factor = fabsf(p.scale) * kLog2e;
  float s[kColumns / 2], out[kD / 2] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {}, change[2];
  uint32_t weights[kColumns / 16][4];
  const auto scores = [&](int j) {
    const int place = (j - begin) % kPlaces;
    bar_sync(keys_full + place, kTogether);
#pragma unroll
    for (float& e : s) e = 0;
    wgmma_fence();
#pragma unroll
    for (int c = 0; c < kD; c += 16)
      wgmma_m64k16<T, kColumns, false, false>(s, Queries::at(tile_q, group, c),
                                              Keys::at(tiles_k + place * Keys::kElements, 0, c));
    wgmma_commit();
  };
  const auto scored = [&](int j) {
    if (j + kPlaces < end) bar_arrive(keys_empty + (j - begin) % kPlaces, kTogether);
  };
  const auto add_values = [&](int j) {
    const int place = (j - begin) % kPlaces;
    bar_sync(values_full + place, kTogether);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n)
      wgmma_m64k16<T, kD, true>(out, weights[n], Values::at(tiles_v + place * Values::kElements, 0, n * 16));
    wgmma_commit();
  };
  const auto added = [&](int j) {
    if (j + kPlaces < end) bar_arrive(values_empty + (j - begin) % kPlaces, kTogether);
  };
  // Online softmax: new maximum, exponentials, and how the sums so far are scaled to the new maximum.
  const auto softmax = [&](int j) {
    if ((F::kMasked && j < whole_begin) || j >= whole_end) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = first + 8 * half, before = j * kColumns;
        mask_row<kColumns, F::kMasked>(s + 2 * half, first_key(query) - before, keys_before(query + 1) - before);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      change[half] = add_to_softmax<kColumns, true>(s + 2 * half, factor, max[half], sum[half]);
  };
  const auto pack = [&] {
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n)
#pragma unroll
      for (int r = 0; r < 4; ++r) weights[n][r] = pack_pair<T>(s[8 * n + 2 * r], s[8 * n + 2 * r + 1]);
  };

  scores(begin);
  wgmma_wait_for(s);
  scored(begin);
  softmax(begin);
  pack();
  for (int j = begin + 1; j < end; ++j) {
    scores(j);
    add_values(j - 1);
    wgmma_wait_for<1>(s);
    scored(j);
    softmax(j);
    wgmma_wait_for(out);
    added(j - 1);
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) out[i] *= change[i % 4 / 2];
    pack();
  }
  add_values(end - 1);
  wgmma_wait_for(out);

  // Write back.
  y += p.y_head(head);
  lse += head * p.Tq;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_reduce<SumOp>(sum[half]), reciprocal = 1 / total;
    const int row = first + 8 * half;
    if (row >= p.Tq) continue;
    if (lane % 4 == 0) lse[row] = fabsf(p.scale) * max[half] + logf(total);
    store_row<kD / 8>(out + 2 * half, reciprocal, y + row * p.y_line(), p.D, pairs, 0);
  }
}

template <class T, int kD, class F>
void enqueue_forward_warpgroup(const F& p, const FlashTensors<T>& t, bool pairs, cudaStream_t stream) {
  using Shape = FlashWarpgroup<T, kD>;
  // With a causal mask a head's last tile has the most work: these come first.
  const Order order(ceil_div(p.Tq, Shape::kRows), p.heads, p.causal ? 2 * p.Tk * p.D * int64_t{sizeof(T)} : 0);
  launch(flash_warpgroup_kernel<T, kD, F>,
         Grid{.blocks = order.heads * order.tiles,
              .threads = Shape::kThreads,
              .shared_bytes = Shape::kSharedBytes,
              .stream = stream},
         p, order, t.q, t.k, t.v, t.y, t.lse, pairs);
}

}  // namespace duet::DUET_DEVICE
