// SPDX-License-Identifier: Apache-2.0
// The backward pass of flash_f32.cu on the tensor cores, by the tiles, masks and exponentials of flash_half.cu. A block
// has 128 keys of a head, a warp 16 of them. ds is rounded to T, too.
#include "kernels/attention/flash_tile.cuh"
#include "simt/turn.h"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kBackwardWarps = 8;

// Shared memory of a block of the backward pass: its 128 keys, their values and ds, and tiles of q and dy.
template <class T, int kD, bool kAsync>
struct Backward {
  static constexpr int kQueries =
      kD > 64 ? 32 : 64;  // of a tile, limited by registers: two tiles of scores and the sums
  // Of tiles of q and dy. With one place the next tile is copied late, but it fits devices with little shared memory.
  static constexpr int kPlaces = kD > 64 && !kAsync ? 1 : 2;
  using Keys = FlashTile<T, kD, kQueries, 1, kBackwardWarps>;
  static constexpr int kKeys = Keys::kRows, kPlace = kQueries * Keys::kPitch, kScorePitch = kQueries + 8;
  static constexpr int64_t kSharedBytes =
      (2 * kKeys * Keys::kPitch + 2 * kPlaces * kPlace + kKeys * kScorePitch) * int64_t{sizeof(T)};
};

// All five products at once. A block has 128 keys of a head of k and v, with the sums of dk and dv in registers, and
// goes over the tiles of queries that see them. Its warps exchange ds by shared memory; what ds and the keys add to dq
// goes to f32 sums in global memory, in the order in which the threads hold it. Of the blocks that see a tile of
// queries, the first writes its sums, each next one adds to them, and the last writes dq: always in the order of the
// keys, so that two runs give the same bits. Without atomic additions no sums are cleared before, and none are
// converted after.
// counters: 0 before the launch. A block takes its work by its turn, which the first counts. The others count, for each
// tile of queries of each head, the blocks that have added to its sums.
// A block takes its queries from the last to the first: under a causal mask all blocks of a head can begin at once.
// sums: (heads, tiles of queries, kQueries, kD). pairs: dq, dk and dv allow 2-element accesses.
template <class T, int kD, bool kAsync, class F>
__global__ void __launch_bounds__(32 * kBackwardWarps)
    flash_backward_kernel(F p, Order order, const T* q, const T* k, const T* v, const T* dy, const float* lse,
                          const float* delta, float* sums, int32_t* counters, T* dq, T* dk, T* dv, bool pairs) {
  using Shape = Backward<T, kD, kAsync>;
  using Tile = typename Shape::Keys;
  constexpr int kQueries = Shape::kQueries, kPlaces = Shape::kPlaces, kKeys = Shape::kKeys, kPlace = Shape::kPlace,
                kScorePitch = Shape::kScorePitch;
  DUET_DYN_SHARED(T, shared);
  DUET_SHARED(float, tile_lse, [kPlaces][kQueries]);
  DUET_SHARED(float, tile_delta, [kPlaces][kQueries]);
  DUET_SHARED(int32_t, turn, [1]);
  T *tile_k = shared, *tile_v = tile_k + kKeys * Tile::kPitch, *tiles_q = tile_v + kKeys * Tile::kPitch;
  T *tiles_dy = tiles_q + kPlaces * kPlace, *tile_ds = tiles_dy + kPlaces * kPlace;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32, warp_row = warp * 16;
  const int g = lane / 4, two_q = lane % 4 * 2, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;

  if (t == 0) turn[0] = take_turn(counters);
  __syncthreads();
  int item = 0, tile = 0;
  order.place(turn[0], false, item, tile);
  const int64_t at = int64_t{tile} * kKeys, first = at + warp_row;  // the first key of the block, and of this warp
  const int64_t kv = p.k_head(item), head_0 = int64_t{item} * p.group, rows_0 = head_0 * p.Tq;
  const int query_tiles = static_cast<int>((p.Tq + kQueries - 1) / kQueries);
  k += kv;
  v += kv;
  if constexpr (F::kPacked) {  // head_0 alone
    q += p.q_head(head_0);
    dy += p.y_head(head_0);
    dq += p.q_head(head_0);
  } else {
    q += rows_0 * p.D;
    dy += rows_0 * p.D;
    dq += rows_0 * p.D;
  }
  lse += rows_0;
  delta += rows_0;
  counters += 1 + head_0 * query_tiles;
  sums += head_0 * query_tiles * (kQueries * kD);

  // The tiles [begin, end) of queries of each head; a step is one tile of one head. A block of keys after the end of
  // their sequence has none.
  const int64_t length = p.keys_of(head_0);
  const int begin = p.causal ? static_cast<int>(at / kQueries) : 0;
  const int end = static_cast<int>((p.last_query(at, kKeys, length) + kQueries - 1) / kQueries);
  const float factor = p.scale * kLog2e;
  // Of the queries of the next tile. Those that do not exist have q = dy = 0 and add nothing.
  float next_lse = 0, next_delta = 0;
  const auto fetch = [&](int head, int query_tile, int place) {
    const int64_t now = int64_t{query_tile} * kQueries, skip = head * p.Tq;
    Tile::template fetch<kQueries, kAsync>(tiles_q + place * kPlace, Tile::mine(q, skip + now, p.line()), q, p.Tq - now,
                                           p.D, p.line());
    Tile::template fetch<kQueries, kAsync>(tiles_dy + place * kPlace, Tile::mine(dy, skip + now, p.y_line()), dy,
                                           p.Tq - now, p.D, p.y_line());
    cp_async_commit();
    if (t < kQueries) {
      const bool exists = now + t < p.Tq;
      next_lse = exists ? kLog2e * lse[skip + now + t] : 0;
      next_delta = exists ? delta[skip + now + t] : 0;
    }
  };
  const auto keep_next = [&](int place) {
    if (t < kQueries) {
      tile_lse[place][t] = next_lse;
      tile_delta[place][t] = next_delta;
    }
  };

  typename Tile::Sums out_k = {}, out_v = {};
  int head = 0, query_tile = end - 1;
  int place = 0;                // of the tiles in use
  int32_t* complete = nullptr;  // the counter of the sums that this block has added to in its last step
  const auto signal = [&] {
    __threadfence();
    atomicAdd(complete, 1);
  };
  bool more = begin < end;
  if (more) {
    Tile::template fetch<kKeys, kAsync>(tile_k, Tile::mine(k, at, p.line()), k, p.Tk - at, p.D, p.line());
    Tile::template fetch<kKeys, kAsync>(tile_v, Tile::mine(v, at, p.line()), v, p.Tk - at, p.D, p.line());
    fetch(head, query_tile, place);
    keep_next(place);
  }
  while (more) {
    const T *tile_q = tiles_q + place * kPlace, *tile_dy = tiles_dy + place * kPlace;
    const int64_t now = int64_t{query_tile} * kQueries;
    const int now_head = head, at_tile = head * query_tiles + query_tile;
    cp_async_wait<0>();
    __syncthreads();  // these tiles are complete, and all have left the others and the last step's sums
    if (--query_tile < begin) {
      query_tile = end - 1;
      ++head;
    }
    more = head < p.group;
    const int next_place = kPlaces - 1 - place;
    if (kPlaces == 2 && more) fetch(head, query_tile, next_place);
    const Visitors<F> visitors(p, now, length, kKeys);
    int32_t before = 0;
    // Pass on the sums of the last step, and look early how far those of this one are.
    if (t == 0) {
      if (complete != nullptr) signal();
      if (tile > visitors.first) before = atomicAdd(counters + at_tile, 0);
    }

    // Probabilities and ds, not yet scaled; ds goes to shared memory. Its keys that no query sees are 0.
    auto* const mine = reinterpret_cast<uint32_t*>(tile_ds + (warp_row + g) * kScorePitch + two_q);
    if (first < length && !(p.causal && now + kQueries <= first)) {
      typename Tile::Scores s, ds;
      Tile::scores(tile_k, warp_row, tile_q, s);
      Tile::scores(tile_v, warp_row, tile_dy, ds);
      bool at_edge = first + 16 > length || (p.causal && now < first + 15);
      if constexpr (F::kMasked) at_edge = at_edge || now + kQueries > first + p.window;
      if (at_edge) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = first + g + 8 * half;
          // Columns [from, to) of the tile are seen.
          const int64_t from = p.causal ? row - now : 0;
          int64_t to = row < length ? kQueries : 0;
          if constexpr (F::kMasked) to = row < length ? row + p.window - now : 0;
#pragma unroll
          for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int column = 8 * n + two_q + e;
              if (column < from || column >= to) s[0][n][2 * half + e] = factor < 0 ? INFINITY : -INFINITY;
            }
        }
      }
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * n + two_q + e % 2;
          s[0][n][e] = exp2_approx(fmaf(factor, s[0][n][e], -tile_lse[place][column]));
          ds[0][n][e] = s[0][n][e] * (ds[0][n][e] - tile_delta[place][column]);
        }
        mine[4 * n] = pack_pair<T>(ds[0][n][0], ds[0][n][1]);
        mine[4 * n + 4 * kScorePitch] = pack_pair<T>(ds[0][n][2], ds[0][n][3]);
      }

      // dk and dv.
      Tile::accumulate(ds, tile_q, out_k);
      Tile::accumulate(s, tile_dy, out_v);
    } else {
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) mine[4 * n] = mine[4 * n + 4 * kScorePitch] = 0;
    }
    if (t == 0 && tile > visitors.first) {
      while (before < tile - visitors.first) {
        spin_pause();
        before = atomicAdd(counters + at_tile, 0);
      }
      __threadfence();
    }
    __syncthreads();  // ds is complete, and so are the sums of the blocks before this one; all have left q and dy
    if (kPlaces == 1 && more) fetch(head, query_tile, next_place);

    // dq: a warp has 16 queries and kWidth features.
    constexpr int kGroups = kQueries / 16, kWidth = kD * kGroups / kBackwardWarps;
    const int query = warp % kGroups * 16, feature = warp / kGroups * kWidth;
    float part[1][kWidth / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kKeys; n += 16) {
      uint32_t left[4];
      ldmatrix_x4<true>(left, tile_ds + (n + high * 8 + r) * kScorePitch + query + odd * 8);
#pragma unroll
      for (int c = 0; c < kWidth / 8; c += 2) {
        uint32_t right[4];
        ldmatrix_x4<true>(right, tile_k + (n + odd * 8 + r) * Tile::kPitch + feature + (c + high) * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
        mma_m16n8k16<T>(part[0][c], left, one);
        mma_m16n8k16<T>(part[0][c + 1], left, two);
      }
    }

    // Add the sums of the blocks before this one.
    float* const my_sums = sums + int64_t{at_tile} * (kQueries * kD) + 4 * t;
    if (tile > visitors.first) {
#pragma unroll
      for (int c = 0; c < kWidth / 8; ++c) {
        Pack<float> sum;  // not from the L1 cache, which may have what was there before
        *reinterpret_cast<uint4*>(&sum) = __ldcg(reinterpret_cast<const uint4*>(my_sums + c * 4 * Tile::kThreads));
#pragma unroll
        for (int e = 0; e < 4; ++e) part[0][c][e] += sum.at[e];
      }
    }
    complete = nullptr;
    if (tile < visitors.last) {
      complete = counters + at_tile;
#pragma unroll
      for (int c = 0; c < kWidth / 8; ++c)
        store_pack(my_sums + c * 4 * Tile::kThreads,
                   Pack<float>{{part[0][c][0], part[0][c][1], part[0][c][2], part[0][c][3]}});
    } else {
      const float scale[1][2] = {{p.scale, p.scale}};
      Tile::write(part, scale, dq + now_head * p.Tq * p.D, now + query, p.Tq, p.D, p.line(), pairs, feature);
    }
    if (more) keep_next(next_place);
    place = next_place;
  }
  if (complete != nullptr) {
    __syncthreads();
    if (t == 0) signal();
  }

  // Write back.
  const float scale[1][2] = {{p.scale, p.scale}}, ones[1][2] = {{1, 1}};
  Tile::write(out_k, scale, dk + kv, first, p.Tk, p.D, p.line(), pairs);
  Tile::write(out_v, ones, dv + kv, first, p.Tk, p.D, p.line(), pairs);
}

template <int kD, bool kAsync, class F, class T>
void enqueue_backward(const F& p, const FlashGradients<T>& t, cudaStream_t stream) {
  using Shape = Backward<T, kD, kAsync>;
  const Order order = backward_order(p, Shape::kKeys, sizeof(T));
  const Grid grid{.blocks = order.heads * order.tiles,
                  .threads = Shape::Keys::kThreads,
                  .shared_bytes = Shape::kSharedBytes,
                  .stream = stream};
  launch(flash_backward_kernel<T, kD, kAsync, F>, grid, p, order, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq_sums,
         t.dq_counters, t.dq, t.dk, t.dv, pairs_aligned<T>(p, {t.dq, t.dk, t.dv}));
}

}  // namespace

FlashDqSpace flash_dq_space_half(const AttentionShape& p) {
  using Wide = Backward<__half, 128, true>;
  using Narrow = Backward<__half, 64, true>;
  const int64_t queries = p.D <= 64 ? Narrow::kQueries : Wide::kQueries, tiles = p.B * p.H * ceil_div(p.Tq, queries);
  const bool several = p.Tk > Wide::kKeys;  // tiles of keys
  return {.sums = several ? tiles * queries * (p.D <= 64 ? 64 : 128) : 0, .counters = 1 + tiles};
}
template <class F, class T>
void enqueue_flash_backward(const F& p, const FlashGradients<T>& t, int64_t shared_bytes, cudaStream_t stream) {
  constexpr int64_t kStaticBytes = 1 << 10;
  if (p.D <= 64)
    rows_aligned<T>(p, {t.q, t.k, t.v, t.dy}) ? enqueue_backward<64, true>(p, t, stream)
                                              : enqueue_backward<64, false>(p, t, stream);
  else
    rows_aligned<T>(p, {t.q, t.k, t.v, t.dy}) && Backward<T, 128, true>::kSharedBytes + kStaticBytes <= shared_bytes
        ? enqueue_backward<128, true>(p, t, stream)
        : enqueue_backward<128, false>(p, t, stream);
}
template void enqueue_flash_backward(const Flash&, const FlashGradients<__nv_bfloat16>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__half>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__nv_bfloat16>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__half>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const PackedFlash&, const FlashGradients<__nv_bfloat16>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const PackedFlash&, const FlashGradients<__half>&, int64_t, cudaStream_t);

}  // namespace duet::DUET_DEVICE
