// SPDX-License-Identifier: Apache-2.0
// As flash_f32.cu, on the tensor cores: a block of 4 warps has 64 rows, a warp 16 of them. Scores stay in registers: a
// thread holds the same elements of the result of one product as the next product takes for its left operand. Sums are
// f32; probabilities and ds are rounded to T.
#include "kernels/attention/flash.h"
#include "kernels/vector.cuh"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kRows = 64, kThreads = 128;

template <class T>
__device__ __forceinline__ uint32_t pack_pair(float first, float second) {
  const Pack<T, 2> pair{{T(first), T(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// kD: features, padded with zeros; kColumns: of a tile. In shared memory rows are kPitch apart, so that 8 of them are
// in different banks. Lane l belongs to group g = l / 4 and has number q = l % 4 in it (simt/mma.h).
template <class T, int kD, int kColumns>
struct Tile {
  static constexpr int kPitch = kD + 8;
  using Scores = float[kColumns / 8][4];  // of 16 rows: g and g + 8, columns 8 n + 2q and the next
  using Sums = float[kD / 8][4];          // as many rows, features 8 n + 2q and the next

  // Loads rows [first, first + count) of x (rows, D); 0 outside. aligned: rows allow 16-byte accesses. Called by all
  // threads.
  __device__ static void fetch(T* tile, int count, const T* x, int64_t first, int64_t rows, int64_t D, bool aligned) {
    for (int index = static_cast<int>(threadIdx.x); index < count * (kD / 8); index += kThreads) {
      const int row = index / (kD / 8), c = index % (kD / 8) * 8;
      const int64_t left = first + row < rows ? D - c : 0;
      const T* from = x + (first + row) * D + c;
      Pack<T> pack;
      if (aligned && left >= 8) {
        pack = load_pack<8>(from);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) pack.at[e] = e < left ? from[e] : T(0.0f);
      }
      store_pack(tile + row * kPitch + c, pack);
    }
  }
  // s = the 16 rows of a from `row` on, times the kColumns rows of b.
  __device__ static void scores(const T* a, int row, const T* b, Scores& s) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll
    for (int c = 0; c < kD; c += 16) {
      uint32_t left[4];
      ldmatrix_x4(left, a + (row + odd * 8 + r) * kPitch + c + high * 8);
#pragma unroll
      for (int n = 0; n < kColumns / 8; n += 2) {
        uint32_t right[4];  // columns n: depth 0-7, 8-15; columns n + 1
        ldmatrix_x4(right, b + ((n + high) * 8 + r) * kPitch + c + odd * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
        mma_m16n8k16<T>(s[n], left, one);
        mma_m16n8k16<T>(s[n + 1], left, two);
      }
    }
  }
  // sums += s b, b: (kColumns, kD)
  __device__ static void accumulate(const Scores& s, const T* b, Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      const uint32_t left[4] = {pack_pair<T>(s[n][0], s[n][1]), pack_pair<T>(s[n][2], s[n][3]),
                                pack_pair<T>(s[n + 1][0], s[n + 1][1]), pack_pair<T>(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int c = 0; c < kD / 8; c += 2) {
        uint32_t right[4];  // features c: depth 0-7, 8-15; features c + 1
        ldmatrix_x4<true>(right, b + (n * 8 + odd * 8 + r) * kPitch + (c + high) * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
        mma_m16n8k16<T>(sums[c], left, one);
        mma_m16n8k16<T>(sums[c + 1], left, two);
      }
    }
  }
  // Writes this warp's sums to y (rows, D): rows g and g + 8, times factor[0] and [1], become rows `row` and row + 8 of
  // y.
  __device__ static void write(const Sums& sums, const float (&factor)[2], T* y, int64_t row, int64_t rows, int64_t D,
                               bool pairs) {
    const int q = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t at = row + 8 * half;
      if (at >= rows) continue;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        const int c = 8 * n + 2 * q;
        const T first = T(sums[n][2 * half] * factor[half]), second = T(sums[n][2 * half + 1] * factor[half]);
        T* to = y + at * D + c;
        if (pairs) {
          if (c < D) store_pack(to, Pack<T, 2>{{first, second}});
        } else {
          if (c < D) to[0] = first;
          if (c + 1 < D) to[1] = second;
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

struct Alignment {
  bool rows, pairs;  // whether 16-byte and 2-element accesses are allowed
};

// One block per 64 queries of a head; with a causal mask, the blocks with the most keys come first. Shared memory: 3
// tiles of 64 rows.
template <class T, int kD>
__global__ void __launch_bounds__(kThreads)
    flash_kernel(Flash p, const T* q, const T* k, const T* v, T* y, float* lse, Alignment alignment) {
  constexpr int kColumns = 64;
  using Tile = Tile<T, kD, kColumns>;
  DUET_DYN_SHARED(T, shared);
  T *tile_q = shared, *tile_k = tile_q + kRows * Tile::kPitch, *tile_v = tile_k + kColumns * Tile::kPitch;
  const int64_t tiles = (p.Tq + kRows - 1) / kRows, head = blockIdx.x / tiles;
  const int64_t i0 = (tiles - 1 - blockIdx.x % tiles) * kRows, kv = head / p.group;
  q += head * p.Tq * p.D;
  y += head * p.Tq * p.D;
  lse += head * p.Tq;
  k += kv * p.Tk * p.D;
  v += kv * p.Tk * p.D;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int64_t row = i0 + warp_row + lane / 4;

  typename Tile::Sums out = {};
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  Tile::fetch(tile_q, kRows, q, i0, p.Tq, p.D, alignment.rows);
  const int64_t keys = p.causal ? min(p.Tk, i0 + kRows) : p.Tk;
  for (int64_t j0 = 0; j0 < keys; j0 += kColumns) {
    Tile::fetch(tile_k, kColumns, k, j0, p.Tk, p.D, alignment.rows);
    Tile::fetch(tile_v, kColumns, v, j0, p.Tk, p.D, alignment.rows);
    __syncthreads();

    // Scores.
    typename Tile::Scores s;
    Tile::scores(tile_q, warp_row, tile_k, s);

    // Online softmax: new maximum, exponentials, and the sums so far scaled to the new maximum.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float larger = max[half];
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& mine = s[n][2 * half + e];
          mine = p.sees(row + 8 * half, j0 + 8 * n + lane % 4 * 2 + e) ? p.scale * mine : -INFINITY;
          larger = fmaxf(larger, mine);
        }
      larger = row_reduce<MaxOp>(larger);
      const float base = RunningSoftmax::base(larger), change = expf(max[half] - base);
      float part = 0;
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          s[n][2 * half + e] = expf(s[n][2 * half + e] - base);
          part += s[n][2 * half + e];
        }
      sum[half] = sum[half] * change + row_reduce<SumOp>(part);
      max[half] = larger;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        out[n][2 * half] *= change;
        out[n][2 * half + 1] *= change;
      }
    }

    // out += exponentials times v.
    Tile::accumulate(s, tile_v, out);
    __syncthreads();  // before the tiles are filled again
  }

  // Write back.
  const float factor[2] = {1 / sum[0], 1 / sum[1]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (lane % 4 == 0 && row + 8 * half < p.Tq) lse[row + 8 * half] = max[half] + logf(sum[half]);
  Tile::write(out, factor, y, row, p.Tq, p.D, alignment.pairs);
}

template <int kD>
constexpr int kBackwardColumns =
    kD > 64 ? 32 : 64;  // limited by registers, which hold two tiles of scores and the sums

// Rows and columns as in flash_f32.cu. Shared memory: 2 tiles of 64 rows, 2 of kBackwardColumns rows, and 512 bytes.
template <class T, int kD, bool kKeys>
__global__ void __launch_bounds__(kThreads)
    flash_backward_kernel(Flash p, const T* q, const T* k, const T* v, const T* dy, const float* lse,
                          const float* delta, T* dq, T* dk, T* dv, Alignment alignment) {
  constexpr int kColumns = kBackwardColumns<kD>;
  using Tile = Tile<T, kD, kColumns>;
  DUET_DYN_SHARED(T, shared);
  DUET_SHARED(float, tile_lse, [kRows]);
  DUET_SHARED(float, tile_delta, [kRows]);
  T *row_1 = shared, *row_2 = row_1 + kRows * Tile::kPitch, *column_1 = row_2 + kRows * Tile::kPitch;
  T* column_2 = column_1 + kColumns * Tile::kPitch;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp_row = t / 32 * 16, mine = warp_row + lane / 4;

  const int64_t rows = kKeys ? p.Tk : p.Tq, columns = kKeys ? p.Tq : p.Tk;
  const int64_t tiles = (rows + kRows - 1) / kRows, item = blockIdx.x / tiles;
  const int64_t at = (kKeys ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles) * kRows;
  const int64_t kv = kKeys ? item : item / p.group;
  k += kv * p.Tk * p.D;
  v += kv * p.Tk * p.D;
  Tile::fetch(row_1, kRows, kKeys ? k : q + item * p.Tq * p.D, at, rows, p.D, alignment.rows);
  Tile::fetch(row_2, kRows, kKeys ? v : dy + item * p.Tq * p.D, at, rows, p.D, alignment.rows);

  typename Tile::Sums out = {}, out_v = {};
  const int64_t begin = kKeys && p.causal ? at : 0;
  const int64_t end = !kKeys && p.causal ? min(columns, at + kRows) : columns;
  for (int64_t g = 0; g < (kKeys ? p.group : 1); ++g) {
    const int64_t head = kKeys ? item * p.group + g : item;
    const T *my_q = q + head * p.Tq * p.D, *my_dy = dy + head * p.Tq * p.D;
    for (int64_t c0 = begin; c0 < end; c0 += kColumns) {
      Tile::fetch(column_1, kColumns, kKeys ? my_q : k, c0, columns, p.D, alignment.rows);
      Tile::fetch(column_2, kColumns, kKeys ? my_dy : v, c0, columns, p.D, alignment.rows);
      if (t < (kKeys ? kColumns : kRows)) {  // lse and delta of the queries
        const int64_t i = (kKeys ? c0 : at) + t;
        tile_lse[t] = i < p.Tq ? lse[head * p.Tq + i] : 0;
        tile_delta[t] = i < p.Tq ? delta[head * p.Tq + i] : 0;
      }
      __syncthreads();

      // Probabilities and ds.
      typename Tile::Scores s, ds;
      Tile::scores(row_1, warp_row, column_1, s);
      Tile::scores(row_2, warp_row, column_2, ds);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = mine + e / 2 * 8, column = 8 * n + lane % 4 * 2 + e % 2, query = kKeys ? column : row;
          const bool seen = kKeys ? p.sees(c0 + column, at + row) : p.sees(at + row, c0 + column);
          s[n][e] = seen ? expf(p.scale * s[n][e] - tile_lse[query]) : 0;
          ds[n][e] = p.scale * s[n][e] * (ds[n][e] - tile_delta[query]);
        }

      // Sums.
      Tile::accumulate(ds, column_1, out);
      if (kKeys) Tile::accumulate(s, column_2, out_v);
      __syncthreads();  // before the tiles are filled again
    }
  }

  // Write back.
  const float ones[2] = {1, 1};
  if (kKeys) {
    Tile::write(out, ones, dk + kv * p.Tk * p.D, at + mine, p.Tk, p.D, alignment.pairs);
    Tile::write(out_v, ones, dv + kv * p.Tk * p.D, at + mine, p.Tk, p.D, alignment.pairs);
  } else {
    Tile::write(out, ones, dq + item * p.Tq * p.D, at + mine, p.Tq, p.D, alignment.pairs);
  }
}

template <class T>
Alignment alignment_of(const Flash& p, std::initializer_list<const T*> tensors) {
  Alignment a{p.D % 8 == 0, p.D % 2 == 0};
  for (const T* t : tensors) {
    a.rows = a.rows && aligned16(t);
    a.pairs = a.pairs && reinterpret_cast<uintptr_t>(t) % (2 * sizeof(T)) == 0;
  }
  return a;
}

template <int kD, class T>
void enqueue_forward(const Flash& p, const FlashTensors<T>& t, cudaStream_t stream) {
  const Grid grid{.blocks = p.heads * ceil_div(p.Tq, kRows),
                  .threads = kThreads,
                  .shared_bytes = 3 * kRows * Tile<T, kD, 64>::kPitch * int64_t{sizeof(T)},
                  .stream = stream};
  launch(flash_kernel<T, kD>, grid, p, t.q, t.k, t.v, t.y, t.lse, alignment_of<T>(p, {t.q, t.k, t.v, t.y}));
}
template <int kD, class T>
void enqueue_backward(const Flash& p, const FlashGradients<T>& t, cudaStream_t stream) {
  constexpr int kColumns = kBackwardColumns<kD>;
  Grid grid{.threads = kThreads,
            .shared_bytes = 2 * (kRows + kColumns) * Tile<T, kD, kColumns>::kPitch * int64_t{sizeof(T)},
            .stream = stream};
  const Alignment alignment = alignment_of<T>(p, {t.q, t.k, t.v, t.dy, t.dq, t.dk, t.dv});
  grid.blocks = p.heads * ceil_div(p.Tq, kRows);
  launch(flash_backward_kernel<T, kD, false>, grid, p, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq, t.dk, t.dv,
         alignment);
  grid.blocks = p.heads / p.group * ceil_div(p.Tk, kRows);
  launch(flash_backward_kernel<T, kD, true>, grid, p, t.q, t.k, t.v, t.dy, t.lse, t.delta, t.dq, t.dk, t.dv, alignment);
}

}  // namespace

template <class T>
void enqueue_flash(const Flash& p, const FlashTensors<T>& t, cudaStream_t stream) {
  p.D <= 64 ? enqueue_forward<64>(p, t, stream) : enqueue_forward<128>(p, t, stream);
}
template <class T>
void enqueue_flash_backward(const Flash& p, const FlashGradients<T>& t, cudaStream_t stream) {
  p.D <= 64 ? enqueue_backward<64>(p, t, stream) : enqueue_backward<128>(p, t, stream);
}
template void enqueue_flash(const Flash&, const FlashTensors<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash(const Flash&, const FlashTensors<__half>&, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__nv_bfloat16>&, cudaStream_t);
template void enqueue_flash_backward(const Flash&, const FlashGradients<__half>&, cudaStream_t);

}  // namespace duet::DUET_DEVICE
