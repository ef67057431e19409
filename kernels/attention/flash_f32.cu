// SPDX-License-Identifier: Apache-2.0
// A block has 64 rows and loops over the columns in tiles of 64. Forward: rows are queries, columns are keys; backward:
// rows are keys, columns are queries. Products are register tiles from shared memory.
#include "kernels/attention/flash.h"
#include "kernels/vector.cuh"
#include "simt/turn.h"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kTile = 64, kThreads = 256;  // rows and columns of a tile; 16 x 16 threads
constexpr int kScorePitch = kTile + 4;

// kD: features, padded with zeros. A tile in shared memory is float[kTile][kPitch]. A thread has rows ty + 16 i; of
// scores, it has columns tx + 16 j; of outputs, features 4 tx + 64 g and the next three.
template <int kD>
struct Tile {
  static constexpr int kPitch = kD + 4, kElements = kTile * kPitch, kGroups = kD / 64;
  using Scores = float[4][4];
  using Sums = float[4][4 * kGroups];

  __device__ static int tx() { return static_cast<int>(threadIdx.x) % 16; }
  __device__ static int ty() { return static_cast<int>(threadIdx.x) / 16; }

  // Loads rows [first, first + kTile) of x, of which `rows` exist, `line` apart; 0 outside. vector: rows allow 16-byte
  // accesses. Called by all threads.
  __device__ static void fetch(float* tile, const float* x, int64_t first, int64_t rows, int64_t D, int64_t line,
                               bool vector) {
    for (int index = static_cast<int>(threadIdx.x); index < kTile * kD / 4; index += kThreads) {
      const int row = index / (kD / 4), c = index % (kD / 4) * 4;
      const float* from = x + (first + row) * line + c;
      float4 v = make_float4(0, 0, 0, 0);
      if (first + row < rows) {
        if (vector) {
          if (c < D) v = *reinterpret_cast<const float4*>(from);
        } else {
          if (c < D) v.x = from[0];
          if (c + 1 < D) v.y = from[1];
          if (c + 2 < D) v.z = from[2];
          if (c + 3 < D) v.w = from[3];
        }
      }
      *reinterpret_cast<float4*>(tile + row * kPitch + c) = v;
    }
  }
  // s[i][j] = row i of a . row j of b
  __device__ static void scores(const float* a, const float* b, Scores& s) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] = 0;
#pragma unroll 4
    for (int c = 0; c < kD; c += 4) {
      float4 va[4], vb[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        va[i] = *reinterpret_cast<const float4*>(a + (ty() + 16 * i) * kPitch + c);
        vb[i] = *reinterpret_cast<const float4*>(b + (tx() + 16 * i) * kPitch + c);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          s[i][j] += va[i].x * vb[j].x + va[i].y * vb[j].y + va[i].z * vb[j].z + va[i].w * vb[j].w;
    }
  }
  __device__ static void store_scores(const Scores& s, float* shared) {  // float[kTile][kScorePitch]
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) shared[(ty() + 16 * i) * kScorePitch + tx() + 16 * j] = s[i][j];
  }
  // sums += s b. s: as store_scores writes it; b: (kTile, kD)
  __device__ static void accumulate(const float* s, const float* b, Sums& sums) {
#pragma unroll 2
    for (int j = 0; j < kTile; j += 4) {
      float4 vs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) vs[i] = *reinterpret_cast<const float4*>(s + (ty() + 16 * i) * kScorePitch + j);
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float4 vb = *reinterpret_cast<const float4*>(b + (j + e) * kPitch + 64 * g + 4 * tx());
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float w = e == 0 ? vs[i].x : e == 1 ? vs[i].y : e == 2 ? vs[i].z : vs[i].w;
            sums[i][4 * g] += w * vb.x;
            sums[i][4 * g + 1] += w * vb.y;
            sums[i][4 * g + 2] += w * vb.z;
            sums[i][4 * g + 3] += w * vb.w;
          }
        }
    }
  }
  // Writes sums, row i times factor[i], to the rows of y from `first` on, of which `rows` exist, `line` apart.
  __device__ static void write(const Sums& sums, const float (&factor)[4], float* y, int64_t first, int64_t rows,
                               int64_t D, int64_t line, bool vector) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = first + ty() + 16 * i;
      if (row >= rows) continue;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int c = 64 * g + 4 * tx();
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = sums[i][4 * g + e] * factor[i];
        if (vector) {
          if (c < D) *reinterpret_cast<float4*>(y + row * line + c) = make_float4(v[0], v[1], v[2], v[3]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (c + e < D) y[row * line + c + e] = v[e];
        }
      }
    }
  }
  // y = s' b, or y += s' b: the rows of y from `first` on, of which `rows` exist, `line` apart. s: as store_scores
  // writes it; b: (kTile, kD).
  __device__ static void add_transposed(const float* s, const float* b, bool add, float* y, int64_t first, int64_t rows,
                                        int64_t D, int64_t line, bool vector) {
    Sums sums = {};
#pragma unroll 4
    for (int j = 0; j < kTile; ++j) {
      const float4 vs = *reinterpret_cast<const float4*>(s + j * kScorePitch + 4 * ty());
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const float4 vb = *reinterpret_cast<const float4*>(b + j * kPitch + 64 * g + 4 * tx());
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float w = i == 0 ? vs.x : i == 1 ? vs.y : i == 2 ? vs.z : vs.w;
          sums[i][4 * g] += w * vb.x;
          sums[i][4 * g + 1] += w * vb.y;
          sums[i][4 * g + 2] += w * vb.z;
          sums[i][4 * g + 3] += w * vb.w;
        }
      }
    }
    // A thread has rows 4 ty + i. What was there is not read from the L1 cache, which may have what was there before.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = first + 4 * ty() + i;
      if (row >= rows) continue;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int c = 64 * g + 4 * tx();
        float *const to = y + row * line + c, *const mine = sums[i] + 4 * g;
        if (vector) {
          if (c >= D) continue;
          const float4 before = add ? __ldcg(reinterpret_cast<const float4*>(to)) : make_float4(0, 0, 0, 0);
          *reinterpret_cast<float4*>(to) =
              make_float4(before.x + mine[0], before.y + mine[1], before.z + mine[2], before.w + mine[3]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (c + e < D) to[e] = (add ? __ldcg(to + e) : 0) + mine[e];
        }
      }
    }
  }
};

// Reduces over the 16 threads that share rows; called by all lanes.
template <class Op>
__device__ __forceinline__ float row_reduce(float v) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) v = Op{}(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// One block per 64 queries of a head; with a causal mask, the blocks with the most keys come first. Shared memory: 3
// tiles and the scores.
template <int kD, class F>
__global__ void __launch_bounds__(kThreads)
    flash_kernel(F p, const float* q, const float* k, const float* v, float* y, float* lse, bool vector) {
  using Tile = Tile<kD>;
  DUET_DYN_SHARED(float, shared);
  float *tile_q = shared, *tile_k = tile_q + Tile::kElements, *tile_v = tile_k + Tile::kElements;
  float* tile_s = tile_v + Tile::kElements;
  const int64_t tiles = (p.Tq + kTile - 1) / kTile, head = blockIdx.x / tiles;
  const int64_t i0 = (tiles - 1 - blockIdx.x % tiles) * kTile, kv = head / p.group;
  q += p.q_head(head);
  y += p.y_head(head);
  lse += head * p.Tq;
  k += p.k_head(kv);
  v += p.k_head(kv);

  typename Tile::Sums out = {};
  float max[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    max[i] = -INFINITY;
    sum[i] = 0;
  }
  Tile::fetch(tile_q, q, i0, p.Tq, p.D, p.line(), vector);
  // Of the block's queries: the keys of their sequence, and the tiles with a key that one of them sees.
  const int64_t length = p.keys_of(head), end = p.causal ? min(length, i0 + kTile) : length;
  for (int64_t j0 = p.first_key(i0) / kTile * kTile; j0 < end; j0 += kTile) {
    Tile::fetch(tile_k, k, j0, p.Tk, p.D, p.line(), vector);
    Tile::fetch(tile_v, v, j0, p.Tk, p.D, p.line(), vector);
    __syncthreads();

    // Scores.
    float s[4][4];
    Tile::scores(tile_q, tile_k, s);

    // Online softmax: new maximum, exponentials, and the sums so far scaled to the new maximum.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = i0 + Tile::ty() + 16 * i;
      float larger = max[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] = p.sees(row, j0 + Tile::tx() + 16 * j, length) ? p.scale * s[i][j] : -INFINITY;
        larger = fmaxf(larger, s[i][j]);
      }
      larger = row_reduce<MaxOp>(larger);
      const float base = RunningSoftmax::base(larger), change = expf(max[i] - base);
      float part = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] = expf(s[i][j] - base);
        part += s[i][j];
      }
      sum[i] = sum[i] * change + row_reduce<SumOp>(part);
      max[i] = larger;
#pragma unroll
      for (int c = 0; c < 4 * Tile::kGroups; ++c) out[i][c] *= change;
    }

    // out += exponentials times v.
    Tile::store_scores(s, tile_s);
    __syncthreads();
    Tile::accumulate(tile_s, tile_v, out);
    __syncthreads();  // before the tiles are filled again
  }

  // Write back.
  float factor[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    factor[i] = 1 / sum[i];
    const int64_t row = i0 + Tile::ty() + 16 * i;
    if (Tile::tx() == 0 && row < p.Tq) lse[row] = max[i] + logf(sum[i]);
  }
  Tile::write(out, factor, y, i0, p.Tq, p.D, p.y_line(), vector);
}

// All five products at once, as in flash_half_backward.cu: a block has 64 keys of a head of k and v, with the sums of
// dk and dv in registers, and goes over the tiles of queries that see them, from the last to the first. What it adds to
// dq goes to dq itself: of the blocks that see a tile of queries, the first one writes it, and each next one adds to
// it, in the order of the keys. counters: as there. Shared memory: 4 tiles, the scores, 128 floats.
template <int kD, class F>
__global__ void __launch_bounds__(kThreads)
    flash_backward_kernel(F p, Order order, const float* q, const float* k, const float* v, const float* dy,
                          const float* lse, const float* delta, int32_t* counters, float* dq, float* dk, float* dv,
                          bool vector) {
  using Tile = Tile<kD>;
  DUET_DYN_SHARED(float, shared);
  DUET_SHARED(int32_t, turn, [1]);
  float *tile_k = shared, *tile_v = tile_k + Tile::kElements, *tile_q = tile_v + Tile::kElements;
  float *tile_dy = tile_q + Tile::kElements, *tile_s = tile_dy + Tile::kElements;
  float *tile_lse = tile_s + kTile * kScorePitch, *tile_delta = tile_lse + kTile;
  const int t = static_cast<int>(threadIdx.x);

  if (t == 0) turn[0] = take_turn(counters);
  __syncthreads();
  int item = 0, tile = 0;
  order.place(turn[0], false, item, tile);
  const int64_t at = int64_t{tile} * kTile, head_0 = int64_t{item} * p.group;
  const int query_tiles = static_cast<int>((p.Tq + kTile - 1) / kTile);
  k += p.k_head(item);
  v += p.k_head(item);
  if constexpr (F::kPacked) {  // head_0 alone. The loop adds head * Tq * D to these: it is taken off here
    q += p.q_head(head_0) - head_0 * p.Tq * p.D;
    dy += p.y_head(head_0) - head_0 * p.Tq * p.D;
    dq += p.q_head(head_0) - head_0 * p.Tq * p.D;
  }
  counters += 1 + head_0 * query_tiles;

  // The tiles [begin, end) of queries of each head.
  const int64_t length = p.keys_of(head_0);
  const int begin = p.causal ? tile : 0;
  const int end = static_cast<int>((p.last_query(at, kTile, length) + kTile - 1) / kTile);
  typename Tile::Sums out_k = {}, out_v = {};
  if (begin < end) {
    Tile::fetch(tile_k, k, at, p.Tk, p.D, p.line(), vector);
    Tile::fetch(tile_v, v, at, p.Tk, p.D, p.line(), vector);
  }
  for (int64_t head = head_0; head < head_0 + p.group; ++head)
    for (int query_tile = end - 1; query_tile >= begin; --query_tile) {
      const int64_t now = int64_t{query_tile} * kTile;
      Tile::fetch(tile_q, q + head * p.Tq * p.D, now, p.Tq, p.D, p.line(), vector);
      Tile::fetch(tile_dy, dy + head * p.Tq * p.D, now, p.Tq, p.D, p.y_line(), vector);
      if (t < kTile) {
        const bool exists = now + t < p.Tq;
        tile_lse[t] = exists ? lse[head * p.Tq + now + t] : 0;
        tile_delta[t] = exists ? delta[head * p.Tq + now + t] : 0;
      }
      __syncthreads();

      // Probabilities and ds. Of the tile, `rows` keys exist, and a query sees those that are at most `later` behind it
      // and fewer than `earlier` before it. Queries that do not exist have q = dy = 0 and add nothing.
      const int rows = static_cast<int>(min(int64_t{kTile}, length - at));
      const int later = p.causal ? static_cast<int>(min(int64_t{kTile}, now - at)) : kTile;
      int earlier = kTile;
      if constexpr (F::kMasked) earlier = static_cast<int>(min(int64_t{kTile}, p.window - (now - at)));
      float s[4][4], ds[4][4];
      Tile::scores(tile_k, tile_q, s);
      Tile::scores(tile_v, tile_dy, ds);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = Tile::ty() + 16 * i, column = Tile::tx() + 16 * j;
          const bool seen = row < rows && row - column <= later && column - row < earlier;
          s[i][j] = seen ? expf(p.scale * s[i][j] - tile_lse[column]) : 0;
          ds[i][j] = p.scale * s[i][j] * (ds[i][j] - tile_delta[column]);
        }

      // dv, then dk and dq: probabilities and ds take turns in the same shared memory.
      Tile::store_scores(s, tile_s);
      __syncthreads();
      Tile::accumulate(tile_s, tile_dy, out_v);
      __syncthreads();
      Tile::store_scores(ds, tile_s);
      const Visitors<F> visitors(p, now, length, kTile);
      int32_t* const complete = counters + (head - head_0) * query_tiles + query_tile;
      if (t == 0 && tile > visitors.first) {
        while (atomicAdd(complete, 0) < tile - visitors.first) spin_pause();
        __threadfence();
      }
      __syncthreads();  // ds is complete, and so is what the blocks before this one add to dq
      Tile::accumulate(tile_s, tile_q, out_k);
      Tile::add_transposed(tile_s, tile_k, tile > visitors.first, dq + head * p.Tq * p.D, now, p.Tq, p.D, p.line(),
                           vector);
      __syncthreads();  // before the tiles are filled again; dq is written
      if (t == 0 && tile < visitors.last) {
        __threadfence();
        atomicAdd(complete, 1);
      }
    }

  // Write back.
  const float ones[4] = {1, 1, 1, 1};
  Tile::write(out_k, ones, dk + p.k_head(item), at, p.Tk, p.D, p.line(), vector);
  Tile::write(out_v, ones, dv + p.k_head(item), at, p.Tk, p.D, p.line(), vector);
}

template <int kD>
constexpr int64_t kForwardShared = (3 * Tile<kD>::kElements + kTile * kScorePitch) * int64_t{sizeof(float)};
template <int kD>
constexpr int64_t kBackwardShared = (4 * Tile<kD>::kElements + kTile * (kScorePitch + 2)) * int64_t{sizeof(float)};

template <int kD, class F>
void enqueue_forward(const F& p, const FlashTensors<float>& t, cudaStream_t stream) {
  const Grid grid{.blocks = p.heads * ceil_div(p.Tq, kTile),
                  .threads = kThreads,
                  .shared_bytes = kForwardShared<kD>,
                  .stream = stream};
  const bool vector = p.D % 4 == 0 && aligned16(t.q, t.k, t.v, t.y);
  launch(flash_kernel<kD, F>, grid, p, t.q, t.k, t.v, t.y, t.lse, vector);
}

template <int kD, class F>
void enqueue_backward(const F& p, const FlashGradients<float>& t, cudaStream_t stream) {
  const bool vector = p.D % 4 == 0 && aligned16(t.q, t.k, t.v, t.dy, t.dq, t.dk, t.dv);
  const Order order = backward_order(p, kTile, sizeof(float));
  const Grid grid{
      .blocks = order.heads * order.tiles, .threads = kThreads, .shared_bytes = kBackwardShared<kD>, .stream = stream};
  launch(flash_backward_kernel<kD, F>, grid, p, order, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq_counters, t.dq, t.dk,
         t.dv, vector);
}

}  // namespace

int64_t flash_shared_bytes(int64_t D) { return D <= 64 ? kForwardShared<64> : kForwardShared<128>; }
int64_t flash_backward_shared_bytes(int64_t D) { return D <= 64 ? kBackwardShared<64> : kBackwardShared<128>; }
FlashDqSpace flash_dq_space_f32(const AttentionShape& p) {
  return {.sums = 0, .counters = 1 + p.B * p.H * ceil_div(p.Tq, kTile)};
}

template <class F>
void enqueue_flash(const F& p, const FlashTensors<float>& t, const FlashDevice& on) {
  p.D <= 64 ? enqueue_forward<64>(p, t, on.stream) : enqueue_forward<128>(p, t, on.stream);
}
template <class F>
void enqueue_flash_backward(const F& p, const FlashGradients<float>& t, cudaStream_t stream) {
  p.D <= 64 ? enqueue_backward<64>(p, t, stream) : enqueue_backward<128>(p, t, stream);
}
template void enqueue_flash(const Flash&, const FlashTensors<float>&, const FlashDevice&);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<float>&, const FlashDevice&);
template void enqueue_flash_backward(const Flash&, const FlashGradients<float>&, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<float>&, cudaStream_t);
template void enqueue_flash(const PackedFlash&, const FlashTensors<float>&, const FlashDevice&);
template void enqueue_flash_backward(const PackedFlash&, const FlashGradients<float>&, cudaStream_t);

}  // namespace duet::DUET_DEVICE
