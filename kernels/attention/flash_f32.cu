// SPDX-License-Identifier: Apache-2.0
// A block has 64 rows and loops over the columns in tiles of 64. Forward: rows are queries, columns are keys. Backward:
// two launches, one with queries as rows (dq) and one with keys as rows (dk, dv), so that each sum is formed by one
// block in a fixed order; the cost is that the scores are computed twice. Products are register tiles from shared
// memory.
#include "kernels/attention/flash.h"
#include "kernels/vector.cuh"

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

  // Loads rows [first, first + kTile) of x (rows, D); 0 outside. vector: rows allow 16-byte accesses. Called by all
  // threads.
  __device__ static void fetch(float* tile, const float* x, int64_t first, int64_t rows, int64_t D, bool vector) {
    for (int index = static_cast<int>(threadIdx.x); index < kTile * kD / 4; index += kThreads) {
      const int row = index / (kD / 4), c = index % (kD / 4) * 4;
      const float* from = x + (first + row) * D + c;
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
  // Writes sums, row i times factor[i], to the rows of y (rows, D) from `first` on.
  __device__ static void write(const Sums& sums, const float (&factor)[4], float* y, int64_t first, int64_t rows,
                               int64_t D, bool vector) {
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
          if (c < D) *reinterpret_cast<float4*>(y + row * D + c) = make_float4(v[0], v[1], v[2], v[3]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (c + e < D) y[row * D + c + e] = v[e];
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
  q += head * p.Tq * p.D;
  y += head * p.Tq * p.D;
  lse += head * p.Tq;
  k += kv * p.Tk * p.D;
  v += kv * p.Tk * p.D;

  typename Tile::Sums out = {};
  float max[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    max[i] = -INFINITY;
    sum[i] = 0;
  }
  Tile::fetch(tile_q, q, i0, p.Tq, p.D, vector);
  // Of the block's queries: the keys of their sequence, and the tiles with a key that one of them sees.
  const int64_t length = p.keys_of(head), end = p.causal ? min(length, i0 + kTile) : length;
  for (int64_t j0 = p.first_key(i0) / kTile * kTile; j0 < end; j0 += kTile) {
    Tile::fetch(tile_k, k, j0, p.Tk, p.D, vector);
    Tile::fetch(tile_v, v, j0, p.Tk, p.D, vector);
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
  Tile::write(out, factor, y, i0, p.Tq, p.D, vector);
}

// kKeys: rows are the keys of one head of k and v, columns the queries of all heads that share it; writes dk and dv.
// Otherwise rows are queries and columns keys; writes dq. One block per 64 rows. Shared memory: 4 tiles, 2 tiles of
// scores, 128 floats.
template <int kD, bool kKeys, class F>
__global__ void __launch_bounds__(kThreads)
    flash_backward_kernel(F p, const float* q, const float* k, const float* v, const float* dy, const float* lse,
                          const float* delta, float* dq, float* dk, float* dv, bool vector) {
  using Tile = Tile<kD>;
  DUET_DYN_SHARED(float, shared);
  float *row_1 = shared, *row_2 = row_1 + Tile::kElements, *column_1 = row_2 + Tile::kElements;
  float *column_2 = column_1 + Tile::kElements, *tile_s = column_2 + Tile::kElements;
  float *tile_ds = tile_s + kTile * kScorePitch, *tile_lse = tile_ds + kTile * kScorePitch,
        *tile_delta = tile_lse + kTile;
  const int t = static_cast<int>(threadIdx.x);

  const int64_t rows = kKeys ? p.Tk : p.Tq, columns = kKeys ? p.Tq : p.Tk;
  const int64_t tiles = (rows + kTile - 1) / kTile, item = blockIdx.x / tiles;
  const int64_t at = (kKeys ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles) * kTile;
  const int64_t kv = kKeys ? item : item / p.group;
  k += kv * p.Tk * p.D;
  v += kv * p.Tk * p.D;
  Tile::fetch(row_1, kKeys ? k : q + item * p.Tq * p.D, at, rows, p.D, vector);
  Tile::fetch(row_2, kKeys ? v : dy + item * p.Tq * p.D, at, rows, p.D, vector);

  typename Tile::Sums out = {}, out_v = {};
  // The tiles of columns that the mask leaves out are skipped.
  const int64_t length = p.keys_of(kKeys ? item * p.group : item);
  const int64_t begin = kKeys ? (p.causal ? at : 0) : p.first_key(at) / kTile * kTile;
  const int64_t end = kKeys ? p.last_query(at, kTile, length) : p.causal ? min(length, at + kTile) : length;
  for (int64_t g = 0; g < (kKeys ? p.group : 1); ++g) {
    const int64_t head = kKeys ? item * p.group + g : item;
    const float *my_q = q + head * p.Tq * p.D, *my_dy = dy + head * p.Tq * p.D;
    for (int64_t c0 = begin; c0 < end; c0 += kTile) {
      Tile::fetch(column_1, kKeys ? my_q : k, c0, columns, p.D, vector);
      Tile::fetch(column_2, kKeys ? my_dy : v, c0, columns, p.D, vector);
      if (t < kTile) {  // lse and delta of the queries
        const int64_t i = (kKeys ? c0 : at) + t;
        tile_lse[t] = i < p.Tq ? lse[head * p.Tq + i] : 0;
        tile_delta[t] = i < p.Tq ? delta[head * p.Tq + i] : 0;
      }
      __syncthreads();

      // Probabilities and ds.
      float s[4][4], ds[4][4];
      Tile::scores(row_1, column_1, s);
      Tile::scores(row_2, column_2, ds);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = Tile::ty() + 16 * i, column = Tile::tx() + 16 * j, mine = kKeys ? column : row;
          const bool seen = kKeys ? p.sees(c0 + column, at + row, length) : p.sees(at + row, c0 + column, length);
          s[i][j] = seen ? expf(p.scale * s[i][j] - tile_lse[mine]) : 0;
          ds[i][j] = p.scale * s[i][j] * (ds[i][j] - tile_delta[mine]);
        }

      // Sums.
      if (kKeys) Tile::store_scores(s, tile_s);
      Tile::store_scores(ds, tile_ds);
      __syncthreads();
      Tile::accumulate(tile_ds, column_1, out);
      if (kKeys) Tile::accumulate(tile_s, column_2, out_v);
      __syncthreads();  // before the tiles are filled again
    }
  }

  // Write back.
  const float ones[4] = {1, 1, 1, 1};
  if (kKeys) {
    Tile::write(out, ones, dk + kv * p.Tk * p.D, at, p.Tk, p.D, vector);
    Tile::write(out_v, ones, dv + kv * p.Tk * p.D, at, p.Tk, p.D, vector);
  } else {
    Tile::write(out, ones, dq + item * p.Tq * p.D, at, p.Tq, p.D, vector);
  }
}

template <int kD>
constexpr int64_t kForwardShared = (3 * Tile<kD>::kElements + kTile * kScorePitch) * int64_t{sizeof(float)};
template <int kD>
constexpr int64_t kBackwardShared = (4 * Tile<kD>::kElements + 2 * kTile * (kScorePitch + 1)) * int64_t{sizeof(float)};

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
  Grid grid{.threads = kThreads, .shared_bytes = kBackwardShared<kD>, .stream = stream};
  grid.blocks = p.heads * ceil_div(p.Tq, kTile);
  launch(flash_backward_kernel<kD, false, F>, grid, p, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq, t.dk, t.dv, vector);
  grid.blocks = p.heads / p.group * ceil_div(p.Tk, kTile);
  launch(flash_backward_kernel<kD, true, F>, grid, p, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq, t.dk, t.dv, vector);
}

}  // namespace

int64_t flash_shared_bytes(int64_t D) { return D <= 64 ? kForwardShared<64> : kForwardShared<128>; }
int64_t flash_backward_shared_bytes(int64_t D) { return D <= 64 ? kBackwardShared<64> : kBackwardShared<128>; }

template <class F>
void enqueue_flash(const F& p, const FlashTensors<float>& t, cudaStream_t stream) {
  p.D <= 64 ? enqueue_forward<64>(p, t, stream) : enqueue_forward<128>(p, t, stream);
}
template <class F>
void enqueue_flash_backward(const F& p, const FlashGradients<float>& t, cudaStream_t stream) {
  p.D <= 64 ? enqueue_backward<64>(p, t, stream) : enqueue_backward<128>(p, t, stream);
}
template void enqueue_flash(const Flash&, const FlashTensors<float>&, cudaStream_t);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<float>&, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<float>&, cudaStream_t);
template void enqueue_flash_backward(const MaskedFlash&, const FlashGradients<float>&, cudaStream_t);

}  // namespace duet::DUET_DEVICE
