// SPDX-License-Identifier: Apache-2.0
// The forward pass of flash_f32.cu on the tensor cores. A block has 128 queries of a head, a warp 32 of them. Scores
// stay in registers: a thread holds the same elements of the result of one product as the next product takes for its
// left operand. Tiles of keys and values have two places in shared memory: while one is used, the next is copied to the
// other. Only tiles at an edge are masked: those on the diagonal of a causal mask, at the start of a window, and at the
// end of a sequence; tiles that no row of a block sees are not read. Exponentials are powers of 2, with log2 e in their
// factor. Sums are f32; probabilities are rounded to T. On Hopper flash_warpgroup.cuh computes all but the cases with
// few rows or rows that are not aligned.
#include "kernels/attention/flash_tile.cuh"
#include "kernels/attention/flash_warpgroup.cuh"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kForwardWarps = 4;

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
  using Tile = FlashTile<T, kD, kColumns, kM, kForwardWarps>;
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
  const int64_t kv = p.k_head(head / p.group);
  k += kv;
  v += kv;
  int next =
      static_cast<int>(Tile::mine(k, int64_t{begin} * kColumns, p.line()) - k);  // this thread's part of the next tile
  const auto fetch = [&](int j) {
    const int place = j % 2 * kPlace;
    const int64_t left = p.Tk - int64_t{j} * kColumns;
    Tile::template fetch<kColumns, kAsync>(tiles_k + place, k + next, k, left, p.D, p.line());
    Tile::template fetch<kColumns, kAsync>(tiles_v + place, v + next, v, left, p.D, p.line());
    next += kColumns * static_cast<int>(p.line());
    cp_async_commit();
  };
  Tile::template fetch<kRows, kAsync>(tile_q, Tile::mine(q + p.q_head(head), i0, p.line()), q, p.Tq - i0, p.D,
                                      p.line());
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
    // Online softmax: new maximum, exponentials, and the sums so far scaled to the new maximum. The first tile under a
    // window may have no key that a query sees. The mask is inside of these loops: ahead of them, three of the four
    // kernels for 128 features spill more registers in the loop over tiles (tools/sass_profile).
    const bool at_edge = (F::kMasked && j < whole_begin) || j >= whole_end;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const row = &s[m][0][2 * half];
        if (at_edge) {
          const int query = first + m * 16 + lane / 4 + 8 * half, before = j * kColumns;
          mask_row<kColumns, F::kMasked>(row, first_key(query) - before, keys_before(query + 1) - before);
        }
        const float change = add_to_softmax<kColumns, F::kMasked>(row, factor, max[m][half], sum[m][half]);
#pragma unroll
        for (int n = 0; n < kD / 8; ++n) {
          out[m][n][2 * half] *= change;
          out[m][n][2 * half + 1] *= change;
        }
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
  Tile::write(out, reciprocal, y + p.y_head(head), first, p.Tq, p.D, p.y_line(), pairs);
}

template <int kD, bool kAsync, class F, class T>
void enqueue_forward(const F& p, const FlashTensors<T>& t, cudaStream_t stream) {
  constexpr int kColumns = kForwardColumns<kD, kAsync>;
  using Tile = FlashTile<T, kD, kColumns, 2, kForwardWarps>;
  // With a causal mask a head's last tile has the most work: these come first.
  const Order order(ceil_div(p.Tq, Tile::kRows), p.heads, p.causal ? 2 * p.Tk * p.D * int64_t{sizeof(T)} : 0);
  const Grid grid{.blocks = order.heads * order.tiles,
                  .threads = Tile::kThreads,
                  .shared_bytes = (Tile::kRows + 4 * kColumns) * Tile::kPitch * int64_t{sizeof(T)},
                  .stream = stream};
  launch(flash_kernel<T, kD, kAsync, F>, grid, p, order, t.q, t.k, t.v, t.y, t.lse, pairs_aligned<T>(p, {t.y}));
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
template void enqueue_flash(const Flash&, const FlashTensors<__nv_bfloat16>&, const FlashDevice&);
template void enqueue_flash(const Flash&, const FlashTensors<__half>&, const FlashDevice&);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__nv_bfloat16>&, const FlashDevice&);
template void enqueue_flash(const MaskedFlash&, const FlashTensors<__half>&, const FlashDevice&);
template void enqueue_flash(const PackedFlash&, const FlashTensors<__nv_bfloat16>&, const FlashDevice&);
template void enqueue_flash(const PackedFlash&, const FlashTensors<__half>&, const FlashDevice&);

}  // namespace duet::DUET_DEVICE
