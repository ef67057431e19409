// SPDX-License-Identifier: Apache-2.0
// As flash_f32.cu, on the tensor cores: a block has 4 warps, a warp 32 rows forward and 16 backward. Scores stay in
// registers: a thread holds the same elements of the result of one product as the next product takes for its left
// operand. Tiles of columns have two places in shared memory: while one is used, the next is copied to the other. Only
// tiles at an edge are masked: those on the diagonal of a causal mask, at the start of a window, and at the end of a
// sequence; tiles that no query of a block sees are not read. Exponentials are powers of 2, with log2 e in their
// factor. Sums are f32; probabilities and ds are rounded to T.
#include <algorithm>

#include "kernels/attention/flash.h"
#include "kernels/vector.cuh"
#include "simt/approximate.h"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kThreads = 128;
constexpr float kLog2e = 1.4426950408889634f;

template <class T>
__device__ __forceinline__ uint32_t pack_pair(float first, float second) {
  const Pack<T, 2> pair{{T(first), T(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// kD: features, padded with zeros; kColumns: of a tile; kM: groups of 16 rows that a warp has. In shared memory rows
// are kPitch apart, so that 8 of them are in different banks. Lane l belongs to group g = l / 4 and has number
// q = l % 4 in it (simt/mma.h).
template <class T, int kD, int kColumns, int kM>
struct Tile {
  static constexpr int kPitch = kD + 8;
  static constexpr int kRows = kThreads / 32 * 16 * kM;  // of a block
  using Scores = float[kM][kColumns / 8][4];             // of 16 rows: g and g + 8, columns 8 n + 2q and the next
  using Sums = float[kM][kD / 8][4];                     // as many rows, features 8 n + 2q and the next

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
  // factor[m][half].
  __device__ static void write(const Sums& sums, const float (&factor)[kM][2], T* y, int64_t first, int64_t rows,
                               int64_t D, bool pairs) {
    const int lane = static_cast<int>(threadIdx.x) % 32, q = lane % 4;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t at = first + m * 16 + lane / 4 + 8 * half;
        if (at >= rows) continue;
#pragma unroll
        for (int n = 0; n < kD / 8; ++n) {
          const int c = 8 * n + 2 * q;
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

// The blocks of a grid in the order that they start in. With a causal mask the tiles with the most work come first, of
// as many heads at a time as have their keys and values in the L2 cache; without one, the tiles of a head are
// neighbours.
struct Order {
  int64_t tiles, heads, section;  // tiles of a head; heads whose tiles are taken together
  Order(int64_t tiles, int64_t heads, const Flash& p, int64_t element_bytes) : tiles(tiles), heads(heads), section(1) {
    constexpr int64_t kCacheBytes = int64_t{16} << 20;
    if (p.causal)
      section = std::clamp<int64_t>(kCacheBytes / std::max<int64_t>(1, 2 * p.Tk * p.D * element_bytes), 1,
                                    std::max<int64_t>(1, heads));
  }
  // largest_last: the last tile of a head has the most work, else the first.
  __device__ void place(bool largest_last, int& head, int& tile) const {
    const int64_t first = blockIdx.x / (section * tiles) * section, within = blockIdx.x - first * tiles;
    const int64_t together = min(section, heads - first);
    head = static_cast<int>(first + within % together);
    tile = static_cast<int>(largest_last ? tiles - 1 - within / together : within / together);
  }
};

template <int kD, bool kAsync>
constexpr int kForwardColumns = kD <= 64 ? 64
                                : kAsync ? 48
                                         : 32;  // limited by registers: of scores, sums and copies

// One block per 128 queries of a head. pairs: y allows 2-element accesses. Shared memory: a tile of 128 rows and 4 of
// kForwardColumns.
template <class T, int kD, bool kAsync, class F>
__global__ void __launch_bounds__(kThreads, 2)
    flash_kernel(F p, Order order, const T* q, const T* k, const T* v, T* y, float* lse, bool pairs) {
  constexpr int kColumns = kForwardColumns<kD, kAsync>, kM = 2;
  using Tile = Tile<T, kD, kColumns, kM>;
  constexpr int kRows = Tile::kRows, kPlace = kColumns * Tile::kPitch;
  DUET_DYN_SHARED(T, shared);
  T *tile_q = shared, *tiles_k = tile_q + kRows * Tile::kPitch, *tiles_v = tiles_k + 2 * kPlace;
  int head = 0, tile = 0;
  order.place(true, head, tile);
  const int64_t i0 = int64_t{tile} * kRows, kv = head / p.group * p.Tk * p.D;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM;
  const int64_t first = i0 + warp_row;  // of this warp's queries
  // Tiles of keys: [begin, tiles) of the block, of which a query of this warp sees those before my_tiles, and all its
  // queries see [whole_begin, whole_end) whole.
  const int64_t length = p.keys_of(head);
  const auto tiles_of = [&](int64_t queries) {
    return static_cast<int>(((p.causal ? min(length, queries) : length) + kColumns - 1) / kColumns);
  };
  const int begin = static_cast<int>(p.first_key(i0) / kColumns), tiles = tiles_of(i0 + kRows);
  const int my_tiles = first >= p.Tq ? 0 : tiles_of(first + 16 * kM);
  const int whole_begin = static_cast<int>((p.first_key(first + 16 * kM - 1) + kColumns - 1) / kColumns);
  const int whole_end = static_cast<int>((p.causal ? min(length, first + 1) : length) / kColumns);

  const float factor = fabsf(p.scale) * kLog2e;
  typename Tile::Sums out = {};
  float max[kM][2], sum[kM][2] = {};  // sum: of this thread's columns
#pragma unroll
  for (int m = 0; m < kM; ++m) max[m][0] = max[m][1] = -INFINITY;
  // Of the next tile.
  const T* my_k = Tile::mine(k + kv, int64_t{begin} * kColumns, p.D);
  const T* my_v = Tile::mine(v + kv, int64_t{begin} * kColumns, p.D);
  const auto fetch = [&](int j) {
    const int place = j % 2 * kPlace;
    const int64_t left = p.Tk - int64_t{j} * kColumns;
    Tile::template fetch<kColumns, kAsync>(tiles_k + place, my_k, k, left, p.D);
    Tile::template fetch<kColumns, kAsync>(tiles_v + place, my_v, v, left, p.D);
    my_k += kColumns * p.D;
    my_v += kColumns * p.D;
    cp_async_commit();
  };
  Tile::template fetch<kRows, kAsync>(tile_q, Tile::mine(q + head * p.Tq * p.D, i0, p.D), q, p.Tq - i0, p.D);
  fetch(begin);
  if (p.scale < 0) {  // scores are scaled by a positive number, so that the largest score has the largest product
    cp_async_wait<0>();
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRows * Tile::kPitch; i += kThreads)
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
          const int64_t row = first + m * 16 + lane / 4 + 8 * half;
          const int64_t keys = p.causal ? min(length, row + 1) : length, before = int64_t{j} * kColumns;
          // Columns [from, to) of the tile are seen.
          const int64_t skipped = p.first_key(row) - before;
          const int from = skipped > 0 ? static_cast<int>(min(int64_t{kColumns}, skipped)) : 0;
          const int to = static_cast<int>(min(int64_t{kColumns}, keys - before));
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

template <int kD>
constexpr int kBackwardColumns =
    kD > 64 ? 32 : 64;  // limited by registers, which hold two tiles of scores and the sums

// Rows and columns as in flash_f32.cu. Shared memory: 2 tiles of 64 rows, 4 of kBackwardColumns rows, and 1 KiB.
template <class T, int kD, bool kKeys, bool kAsync, class F>
__global__ void __launch_bounds__(kThreads)
    flash_backward_kernel(F p, Order order, const T* q, const T* k, const T* v, const T* dy, const float* lse,
                          const float* delta, T* dq, T* dk, T* dv, bool pairs) {
  constexpr int kColumns = kBackwardColumns<kD>;
  using Tile = Tile<T, kD, kColumns, 1>;
  constexpr int kRows = Tile::kRows, kPlace = kColumns * Tile::kPitch;
  DUET_DYN_SHARED(T, shared);
  DUET_SHARED(float, tile_lse, [2][kColumns]);
  DUET_SHARED(float, tile_delta, [2][kColumns]);
  T *row_1 = shared, *row_2 = row_1 + kRows * Tile::kPitch, *columns_1 = row_2 + kRows * Tile::kPitch;
  T* columns_2 = columns_1 + 2 * kPlace;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp_row = t / 32 * 16;

  const int64_t rows = kKeys ? p.Tk : p.Tq, columns = kKeys ? p.Tq : p.Tk;
  int item = 0, tile = 0;
  order.place(!kKeys, item, tile);
  const int64_t at = int64_t{tile} * kRows, first = at + warp_row;  // the first row of the block, and of this warp
  const int64_t kv = kKeys ? item : item / p.group;
  k += kv * p.Tk * p.D;
  v += kv * p.Tk * p.D;
  if (!kKeys) {
    q += item * p.Tq * p.D;
    dy += item * p.Tq * p.D;
    lse += item * p.Tq;
    delta += item * p.Tq;
  } else {
    q += item * p.group * p.Tq * p.D;
    dy += item * p.group * p.Tq * p.D;
    lse += item * p.group * p.Tq;
    delta += item * p.group * p.Tq;
  }
  // The columns [begin, end) of each of `heads` heads; a step is one tile of one head. Tiles that the mask leaves out
  // are skipped; a block of keys after the end of their sequence has none.
  const int64_t length = p.keys_of(kKeys ? item * p.group : item);
  const int64_t begin = kKeys ? (p.causal ? at : 0) : p.first_key(at) / kColumns * kColumns;
  const int64_t end = kKeys ? p.last_query(at, kRows, length) : p.causal ? min(length, at + kRows) : length;
  const int64_t heads = kKeys ? p.group : 1;
  const float factor = p.scale * kLog2e;
  float row_lse[2] = {}, row_delta[2] = {};  // of the queries, where they are rows
  if (!kKeys) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t i = first + lane / 4 + 8 * half;
      if (i < p.Tq) {
        row_lse[half] = kLog2e * lse[i];
        row_delta[half] = delta[i];
      }
    }
  }
  // Of the queries of the next tile, where they are columns. Those that do not exist have q = dy = 0 and add nothing.
  float next_lse = 0, next_delta = 0;
  const auto fetch = [&](int64_t head, int64_t c0, int place) {
    const int64_t skip = kKeys ? head * p.Tq * p.D : 0;
    const T *one = (kKeys ? q : k) + skip, *two = (kKeys ? dy : v) + skip;
    Tile::template fetch<kColumns, kAsync>(columns_1 + place * kPlace, Tile::mine(one, c0, p.D), one, columns - c0,
                                           p.D);
    Tile::template fetch<kColumns, kAsync>(columns_2 + place * kPlace, Tile::mine(two, c0, p.D), two, columns - c0,
                                           p.D);
    cp_async_commit();
    if (kKeys && t < kColumns) {
      const bool exists = c0 + t < p.Tq;
      next_lse = exists ? kLog2e * lse[head * p.Tq + c0 + t] : 0;
      next_delta = exists ? delta[head * p.Tq + c0 + t] : 0;
    }
  };
  const auto keep_next = [&](int place) {
    if (kKeys && t < kColumns) {
      tile_lse[place][t] = next_lse;
      tile_delta[place][t] = next_delta;
    }
  };

  typename Tile::Sums out = {}, out_v = {};
  int64_t head = 0, c0 = begin;
  int place = 0;  // of the tiles in use
  bool more = begin < end && heads > 0;
  if (more) {
    const T *one = kKeys ? k : q, *two = kKeys ? v : dy;
    Tile::template fetch<kRows, kAsync>(row_1, Tile::mine(one, at, p.D), one, rows - at, p.D);
    Tile::template fetch<kRows, kAsync>(row_2, Tile::mine(two, at, p.D), two, rows - at, p.D);
    fetch(head, c0, place);
    keep_next(place);
  }
  while (more) {
    const T *column_1 = columns_1 + place * kPlace, *column_2 = columns_2 + place * kPlace;
    const int64_t now = c0;
    cp_async_wait<0>();
    __syncthreads();  // this tile is complete, and all have left the other place
    c0 += kColumns;
    if (c0 >= end) {
      c0 = begin;
      ++head;
    }
    more = head < heads;
    if (more) fetch(head, c0, place ^ 1);

    // Whether a row of this warp sees a column of the tile.
    if (first < rows && !(p.causal && (kKeys ? now + kColumns <= first : now >= first + 16))) {
      // Probabilities and ds, not yet scaled.
      typename Tile::Scores s, ds;
      Tile::scores(row_1, warp_row, column_1, s);
      Tile::scores(row_2, warp_row, column_2, ds);
      bool at_edge =
          kKeys ? p.causal && now < first + 15 : now + kColumns > length || (p.causal && now + kColumns > first + 1);
      if constexpr (F::kMasked)
        at_edge = at_edge ||
                  (kKeys ? now + kColumns > first + p.window || first + 16 > length : now < p.first_key(first + 15));
      if (at_edge) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = first + lane / 4 + 8 * half;
          // Columns [from, to) of the tile are seen.
          int64_t from = kKeys ? row - now : 0;
          int64_t to = kKeys ? kColumns : (p.causal ? min(length, row + 1) : length) - now;
          if constexpr (F::kMasked) {
            from = kKeys ? (p.causal ? row - now : 0) : p.first_key(row) - now;
            if (kKeys) to = row < length ? row + p.window - now : 0;
          }
#pragma unroll
          for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int column = 8 * n + lane % 4 * 2 + e;
              if (column < from || column >= to) s[0][n][2 * half + e] = factor < 0 ? INFINITY : -INFINITY;
            }
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * n + lane % 4 * 2 + e % 2;
          const float level = kKeys ? tile_lse[place][column] : row_lse[e / 2];
          s[0][n][e] = exp2_approx(fmaf(factor, s[0][n][e], -level));
          ds[0][n][e] = s[0][n][e] * (ds[0][n][e] - (kKeys ? tile_delta[place][column] : row_delta[e / 2]));
        }

      // Sums.
      Tile::accumulate(ds, column_1, out);
      if (kKeys) Tile::accumulate(s, column_2, out_v);
    }
    if (more) keep_next(place ^ 1);
    place ^= 1;
  }

  // Write back.
  const float scale[1][2] = {{p.scale, p.scale}}, ones[1][2] = {{1, 1}};
  if (kKeys) {
    Tile::write(out, scale, dk + kv * p.Tk * p.D, first, p.Tk, p.D, pairs);
    Tile::write(out_v, ones, dv + kv * p.Tk * p.D, first, p.Tk, p.D, pairs);
  } else {
    Tile::write(out, scale, dq + item * p.Tq * p.D, first, p.Tq, p.D, pairs);
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

template <int kD, bool kAsync, class F, class T>
void enqueue_forward(const F& p, const FlashTensors<T>& t, cudaStream_t stream) {
  constexpr int kColumns = kForwardColumns<kD, kAsync>;
  using Tile = Tile<T, kD, kColumns, 2>;
  const Order order(ceil_div(p.Tq, Tile::kRows), p.heads, p, sizeof(T));
  const Grid grid{.blocks = order.heads * order.tiles,
                  .threads = kThreads,
                  .shared_bytes = (Tile::kRows + 4 * kColumns) * Tile::kPitch * int64_t{sizeof(T)},
                  .stream = stream};
  launch(flash_kernel<T, kD, kAsync, F>, grid, p, order, t.q, t.k, t.v, t.y, t.lse, pairs_aligned<T>(p, {t.y}));
}
template <int kD, bool kAsync, class F, class T>
void enqueue_backward(const F& p, const FlashGradients<T>& t, cudaStream_t stream) {
  constexpr int kColumns = kBackwardColumns<kD>;
  using Tile = Tile<T, kD, kColumns, 1>;
  const bool pairs = pairs_aligned<T>(p, {t.dq, t.dk, t.dv});
  const auto enqueue = [&](auto* kernel, int64_t rows, int64_t heads) {
    const Order order(ceil_div(rows, Tile::kRows), heads, p, sizeof(T));
    const Grid grid{.blocks = order.heads * order.tiles,
                    .threads = kThreads,
                    .shared_bytes = (2 * Tile::kRows + 4 * kColumns) * Tile::kPitch * int64_t{sizeof(T)},
                    .stream = stream};
    launch(kernel, grid, p, order, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq, t.dk, t.dv, pairs);
  };
  enqueue(flash_backward_kernel<T, kD, false, kAsync, F>, p.Tq, p.heads);
  enqueue(flash_backward_kernel<T, kD, true, kAsync, F>, p.Tk, p.heads / p.group);
}

}  // namespace

template <class F, class T>
void enqueue_flash(const F& p, const FlashTensors<T>& t, cudaStream_t stream) {
  if (rows_aligned<T>(p, {t.q, t.k, t.v}))
    p.D <= 64 ? enqueue_forward<64, true>(p, t, stream) : enqueue_forward<128, true>(p, t, stream);
  else
    p.D <= 64 ? enqueue_forward<64, false>(p, t, stream) : enqueue_forward<128, false>(p, t, stream);
}
template <class F, class T>
void enqueue_flash_backward(const F& p, const FlashGradients<T>& t, cudaStream_t stream) {
  if (rows_aligned<T>(p, {t.q, t.k, t.v, t.dy}))
    p.D <= 64 ? enqueue_backward<64, true>(p, t, stream) : enqueue_backward<128, true>(p, t, stream);
  else
    p.D <= 64 ? enqueue_backward<64, false>(p, t, stream) : enqueue_backward<128, false>(p, t, stream);
}
template void enqueue_flash(const Flash&, const FlashTensors<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash(const Flash&, const FlashTensors<__half>&, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__half>&, cudaStream_t);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__half>&, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<__half>&, cudaStream_t);

}  // namespace duet::DUET_DEVICE
