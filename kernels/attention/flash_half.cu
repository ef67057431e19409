// SPDX-License-Identifier: Apache-2.0
// As flash_f32.cu, on the tensor cores. Forward a block has 128 queries of a head, a warp 32 of them; backward it has
// 128 keys, a warp 16. Scores stay in registers: a thread holds the same elements of the result of one product as the
// next product takes for its left operand. Tiles of columns have two places in shared memory: while one is used, the
// next is copied to the other. Only tiles at an edge are masked: those on the diagonal of a causal mask, at the start
// of a window, and at the end of a sequence; tiles that no row of a block sees are not read. Exponentials are powers of
// 2, with log2 e in their factor. Sums are f32; probabilities and ds are rounded to T.
#include "kernels/attention/flash.h"
#include "kernels/attention/flash_warpgroup.cuh"
#include "kernels/vector.cuh"
#include "simt/approximate.h"
#include "simt/mma.h"
#include "simt/turn.h"

namespace duet::DUET_DEVICE {
namespace {

template <class T>
__device__ __forceinline__ uint32_t pack_pair(float first, float second) {
  const Pack<T, 2> pair{{T(first), T(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// kD: features, padded with zeros; kColumns: of a tile; kM: groups of 16 rows that a warp has; kWarps: of a block. In
// shared memory rows are kPitch apart, so that 8 of them are in different banks. Lane l belongs to group g = l / 4 and
// has number q = l % 4 in it (simt/mma.h).
template <class T, int kD, int kColumns, int kM, int kWarps>
struct Tile {
  static constexpr int kThreads = 32 * kWarps, kPitch = kD + 8;
  static constexpr int kRows = kWarps * 16 * kM;  // of a block
  using Scores = float[kM][kColumns / 8][4];      // of 16 rows: g and g + 8, columns 8 n + 2q and the next
  using Sums = float[kM][kD / 8][4];              // as many rows, features 8 n + 2q and the next

  // The address of the first element that this thread copies of rows `first` and on of x (rows, D).
  __device__ static const T* mine(const T* x, int64_t first, int64_t D) {
    constexpr int kPacks = kD / 8;
    return x + (first + static_cast<int>(threadIdx.x) / kPacks) * D + static_cast<int>(threadIdx.x) % kPacks * 8;
  }
  // Starts to copy kCount rows of D elements; from: mine(x, first, D). Only `rows` exist, the others become 0. kAsync:
  // rows allow 16-byte accesses, and the copies join the group of cp.async that the thread commits next; else they are
  // done on return. Called by all threads.
  template <int kCount, bool kAsync>
  __device__ static void fetch(T* tile, const T* from, const T* x, int64_t rows, int64_t D) {
    constexpr int kPacks = kD / 8, kStep = kThreads / kPacks;
    const int row = static_cast<int>(threadIdx.x) / kPacks, c = static_cast<int>(threadIdx.x) % kPacks * 8;
    const int exist = c < D ? static_cast<int>(min(int64_t{kCount}, rows)) : 0;
#pragma unroll
    for (int r = 0; r < kCount; r += kStep, from += kStep * D) {
      T* to = tile + (row + r) * kPitch + c;
      const bool inside = row + r < exist;
      if constexpr (kAsync) {
        cp_async16(to, inside ? from : x, inside ? 16 : 0);
      } else {
        const int64_t left = inside ? D - c : 0;
        Pack<T> pack;
#pragma unroll
        for (int e = 0; e < 8; ++e) pack.at[e] = e < left ? from[e] : T(0.0f);
        store_pack(to, pack);
      }
    }
  }
  // s = the kM * 16 rows of a from `row` on, times the kColumns rows of b.
  __device__ static void scores(const T* a, int row, const T* b, Scores& s) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = 0;
#pragma unroll
    for (int c = 0; c < kD; c += 16) {
      uint32_t left[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) ldmatrix_x4(left[m], a + (row + m * 16 + odd * 8 + r) * kPitch + c + high * 8);
#pragma unroll
      for (int n = 0; n < kColumns / 8; n += 2) {
        uint32_t right[4];  // columns n: depth 0-7, 8-15; columns n + 1
        ldmatrix_x4(right, b + ((n + high) * 8 + r) * kPitch + c + odd * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16<T>(s[m][n], left[m], one);
          mma_m16n8k16<T>(s[m][n + 1], left[m], two);
        }
      }
    }
  }
  // sums += s b, b: (kColumns, kD)
  __device__ static void accumulate(const Scores& s, const T* b, Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t left[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        left[m][0] = pack_pair<T>(s[m][n][0], s[m][n][1]);
        left[m][1] = pack_pair<T>(s[m][n][2], s[m][n][3]);
        left[m][2] = pack_pair<T>(s[m][n + 1][0], s[m][n + 1][1]);
        left[m][3] = pack_pair<T>(s[m][n + 1][2], s[m][n + 1][3]);
      }
#pragma unroll
      for (int c = 0; c < kD / 8; c += 2) {
        uint32_t right[4];  // features c: depth 0-7, 8-15; features c + 1
        ldmatrix_x4<true>(right, b + (n * 8 + odd * 8 + r) * kPitch + (c + high) * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16<T>(sums[m][c], left[m], one);
          mma_m16n8k16<T>(sums[m][c + 1], left[m], two);
        }
      }
    }
  }
  // Writes this warp's sums to y (rows, D), of which its first row is `first`: rows m * 16 + g + 8 * half, times
  // factor[m][half]; their features begin at `feature`. pairs: y allows 2-element accesses.
  template <int kCount>
  __device__ static void write(const float (&sums)[kM][kCount][4], const float (&factor)[kM][2], T* y, int64_t first,
                               int64_t rows, int64_t D, bool pairs, int feature = 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32, q = lane % 4;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t at = first + m * 16 + lane / 4 + 8 * half;
        if (at >= rows) continue;
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
          const int c = feature + 8 * n + 2 * q;
          const float* sum = sums[m][n] + 2 * half;
          const T one = T(sum[0] * factor[m][half]), two = T(sum[1] * factor[m][half]);
          T* to = y + at * D + c;
          if (pairs) {
            if (c < D) store_pack(to, Pack<T, 2>{{one, two}});
          } else {
            if (c < D) to[0] = one;
            if (c + 1 < D) to[1] = two;
          }
        }
      }
  }
};

// Reduces over the 4 lanes that share rows; called by all lanes.
template <class Op>
__device__ __forceinline__ float row_reduce(float v) {
  v = Op{}(v, __shfl_xor_sync(0xffffffffu, v, 2));
  return Op{}(v, __shfl_xor_sync(0xffffffffu, v, 1));
}

constexpr int kForwardWarps = 4, kBackwardWarps = 8;

template <int kD, bool kAsync>
constexpr int kForwardColumns = kD <= 64 ? 64
                                : kAsync ? 48
                                         : 32;  // limited by registers: of scores, sums and copies

// One block per 128 queries of a head. pairs: y allows 2-element accesses. Shared memory: a tile of 128 rows and 4 of
// kForwardColumns.
template <class T, int kD, bool kAsync, class F>
__global__ void __launch_bounds__(32 * kForwardWarps, 2)
    flash_kernel(F p, Order order, const T* q, const T* k, const T* v, T* y, float* lse, bool pairs) {
  constexpr int kColumns = kForwardColumns<kD, kAsync>, kM = 2;
  using Tile = Tile<T, kD, kColumns, kM, kForwardWarps>;
  constexpr int kRows = Tile::kRows, kPlace = kColumns * Tile::kPitch;
  DUET_DYN_SHARED(T, shared);
  T *tile_q = shared, *tiles_k = tile_q + kRows * Tile::kPitch, *tiles_v = tiles_k + 2 * kPlace;
  int head = 0, tile = 0;
  order.place(blockIdx.x, true, head, tile);
  // Indices within a head have 32 bits (kMaxFlashRows): registers are what limits the tiles.
  const int i0 = tile * kRows, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM, first = i0 + warp_row;  // of this warp's queries
  // Tiles of keys: [begin, tiles) of the block, of which a query of this warp sees those before my_tiles, and all its
  // queries see [whole_begin, whole_end) whole.
  const int length = static_cast<int>(p.keys_of(head));
  const auto keys_before = [&](int query) { return p.causal ? min(length, query) : length; };
  const auto first_key = [&](int query) { return static_cast<int>(p.first_key(query)); };
  const int begin = first_key(i0) / kColumns, tiles = (keys_before(i0 + kRows) + kColumns - 1) / kColumns;
  const int my_tiles = first >= p.Tq ? 0 : (keys_before(first + 16 * kM) + kColumns - 1) / kColumns;
  const int whole_begin = (first_key(first + 16 * kM - 1) + kColumns - 1) / kColumns;
  const int whole_end = keys_before(first + 1) / kColumns;

  const float factor = fabsf(p.scale) * kLog2e;
  typename Tile::Sums out = {};
  float max[kM][2], sum[kM][2] = {};  // sum: of this thread's columns
#pragma unroll
  for (int m = 0; m < kM; ++m) max[m][0] = max[m][1] = -INFINITY;
  const int64_t kv = head / p.group * p.Tk * p.D;
  k += kv;
  v += kv;
  int next =
      static_cast<int>(Tile::mine(k, int64_t{begin} * kColumns, p.D) - k);  // this thread's part of the next tile
  const auto fetch = [&](int j) {
    const int place = j % 2 * kPlace;
    const int64_t left = p.Tk - int64_t{j} * kColumns;
    Tile::template fetch<kColumns, kAsync>(tiles_k + place, k + next, k, left, p.D);
    Tile::template fetch<kColumns, kAsync>(tiles_v + place, v + next, v, left, p.D);
    next += kColumns * static_cast<int>(p.D);
    cp_async_commit();
  };
  Tile::template fetch<kRows, kAsync>(tile_q, Tile::mine(q + head * p.Tq * p.D, i0, p.D), q, p.Tq - i0, p.D);
  fetch(begin);
  if (p.scale < 0) {  // scores are scaled by a positive number, so that the largest score has the largest product
    cp_async_wait<0>();
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRows * Tile::kPitch; i += Tile::kThreads)
      if (i % Tile::kPitch < kD) tile_q[i] = T(-float(tile_q[i]));
  }

  for (int j = begin; j < tiles; ++j) {
    const T *tile_k = tiles_k + j % 2 * kPlace, *tile_v = tiles_v + j % 2 * kPlace;
    cp_async_wait<0>();
    __syncthreads();  // this tile is complete, and all have left the other place
    if (j + 1 < tiles) fetch(j + 1);
    if (j >= my_tiles) continue;

    // Scores, not yet scaled.
    typename Tile::Scores s;
    Tile::scores(tile_q, warp_row, tile_k, s);
    if ((F::kMasked && j < whole_begin) || j >= whole_end) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // Columns [from, to) of the tile are seen.
          const int row = first + m * 16 + lane / 4 + 8 * half, before = j * kColumns;
          const int from = first_key(row) - before, to = keys_before(row + 1) - before;
#pragma unroll
          for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int column = 8 * n + lane % 4 * 2 + e;
              if ((F::kMasked && column < from) || column >= to) s[m][n][2 * half + e] = -INFINITY;
            }
        }
    }

    // Online softmax: new maximum, exponentials, and the sums so far scaled to the new maximum. The first tile under a
    // window may have no key that a query sees: its maximum stays -inf, and nothing is relative to that.
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float larger = max[m][half];
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) larger = fmaxf(larger, s[m][n][2 * half + e]);
        larger = row_reduce<MaxOp>(larger);
        float part = 0;
        const float level = F::kMasked ? RunningSoftmax::base(larger) : larger;
        const float base = factor * level, change = exp2_approx(factor * (max[m][half] - level));
        max[m][half] = larger;
#pragma unroll
        for (int n = 0; n < kD / 8; ++n) {
          out[m][n][2 * half] *= change;
          out[m][n][2 * half + 1] *= change;
        }
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& mine = s[m][n][2 * half + e];
            mine = exp2_approx(fmaf(factor, mine, -base));
            part += mine;
          }
        sum[m][half] = fmaf(sum[m][half], change, part);
      }

    // out += exponentials times v.
    Tile::accumulate(s, tile_v, out);
  }

  // Write back.
  lse += head * p.Tq;
  float reciprocal[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = row_reduce<SumOp>(sum[m][half]);
      const int64_t row = first + m * 16 + lane / 4 + 8 * half;
      reciprocal[m][half] = 1 / total;
      if (lane % 4 == 0 && row < p.Tq) lse[row] = fabsf(p.scale) * max[m][half] + logf(total);
    }
  Tile::write(out, reciprocal, y + head * p.Tq * p.D, first, p.Tq, p.D, pairs);
}

// Shared memory of a block of the backward pass: its 128 keys, their values and ds, and tiles of q and dy.
template <class T, int kD, bool kAsync>
struct Backward {
  static constexpr int kQueries =
      kD > 64 ? 32 : 64;  // of a tile, limited by registers: two tiles of scores and the sums
  // Of tiles of q and dy. With one place the next tile is copied late, but it fits devices with little shared memory.
  static constexpr int kPlaces = kD > 64 && !kAsync ? 1 : 2;
  using Keys = Tile<T, kD, kQueries, 1, kBackwardWarps>;
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
  const int64_t kv = int64_t{item} * p.Tk * p.D, head_0 = int64_t{item} * p.group, rows_0 = head_0 * p.Tq;
  const int query_tiles = static_cast<int>((p.Tq + kQueries - 1) / kQueries);
  k += kv;
  v += kv;
  q += rows_0 * p.D;
  dy += rows_0 * p.D;
  dq += rows_0 * p.D;
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
    Tile::template fetch<kQueries, kAsync>(tiles_q + place * kPlace, Tile::mine(q, skip + now, p.D), q, p.Tq - now,
                                           p.D);
    Tile::template fetch<kQueries, kAsync>(tiles_dy + place * kPlace, Tile::mine(dy, skip + now, p.D), dy, p.Tq - now,
                                           p.D);
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
    Tile::template fetch<kKeys, kAsync>(tile_k, Tile::mine(k, at, p.D), k, p.Tk - at, p.D);
    Tile::template fetch<kKeys, kAsync>(tile_v, Tile::mine(v, at, p.D), v, p.Tk - at, p.D);
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
      Tile::write(part, scale, dq + now_head * p.Tq * p.D, now + query, p.Tq, p.D, pairs, feature);
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
  Tile::write(out_k, scale, dk + kv, first, p.Tk, p.D, pairs);
  Tile::write(out_v, ones, dv + kv, first, p.Tk, p.D, pairs);
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

template <int kD, bool kAsync, class F, class T>
void enqueue_forward(const F& p, const FlashTensors<T>& t, cudaStream_t stream) {
  constexpr int kColumns = kForwardColumns<kD, kAsync>;
  using Tile = Tile<T, kD, kColumns, 2, kForwardWarps>;
  // With a causal mask a head's last tile has the most work: these come first.
  const Order order(ceil_div(p.Tq, Tile::kRows), p.heads, p.causal ? 2 * p.Tk * p.D * int64_t{sizeof(T)} : 0);
  const Grid grid{.blocks = order.heads * order.tiles,
                  .threads = Tile::kThreads,
                  .shared_bytes = (Tile::kRows + 4 * kColumns) * Tile::kPitch * int64_t{sizeof(T)},
                  .stream = stream};
  launch(flash_kernel<T, kD, kAsync, F>, grid, p, order, t.q, t.k, t.v, t.y, t.lse, pairs_aligned<T>(p, {t.y}));
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

template <class F, class T>
void enqueue_flash(const F& p, const FlashTensors<T>& t, const FlashDevice& on) {
  const cudaStream_t stream = on.stream;
  const bool aligned = rows_aligned<T>(p, {t.q, t.k, t.v});
  if (aligned && has_wgmma(on.capability) && p.Tq > 64 && p.Tk > 64) {
    const bool pairs = pairs_aligned<T>(p, {t.y});
    p.D <= 64 ? enqueue_forward_warpgroup<T, 64>(p, t, pairs, stream)
              : enqueue_forward_warpgroup<T, 128>(p, t, pairs, stream);
  } else if (aligned)
    p.D <= 64 ? enqueue_forward<64, true>(p, t, stream) : enqueue_forward<128, true>(p, t, stream);
  else
    p.D <= 64 ? enqueue_forward<64, false>(p, t, stream) : enqueue_forward<128, false>(p, t, stream);
}
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
template void enqueue_flash(const Flash&, const FlashTensors<__nv_bfloat16>&, const FlashDevice&);
template void enqueue_flash(const Flash&, const FlashTensors<__half>&, const FlashDevice&);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__nv_bfloat16>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__half>&, int64_t, cudaStream_t);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__nv_bfloat16>&, const FlashDevice&);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__half>&, const FlashDevice&);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__nv_bfloat16>&, int64_t, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__half>&, int64_t, cudaStream_t);

}  // namespace duet::DUET_DEVICE
