// SPDX-License-Identifier: Apache-2.0
// The product of i8: a block computes one 128 x 128 tile of c on the tensor cores (tile_int8.cuh). Their fragments want
// k contiguous in both operands; an operand that lies the other way is transposed first, which reads and writes it
// once.
#include "kernels/gemm/product_int8.h"
#include "kernels/gemm/tile_int8.cuh"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kSide = 64, kTransposeThreads = 256;  // of a tile to transpose

// One block of 256 threads per tile of 64 x 64, 64 * 68 bytes of shared memory. from: (batch, rows, cols), to: (batch,
// cols, rows). A thread moves kSize neighbours of a row at a time: 4 where rows of both matrices begin at multiples of
// 4 bytes, else 1.
template <int kSize>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_int8_kernel(const int8_t* from, int8_t* to, int64_t rows, int64_t cols, int64_t down, int64_t across) {
  constexpr int kPitch = kSide + 4, kAcross = kSide / kSize, kStep = kTransposeThreads / kAcross;
  DUET_SHARED(int8_t, tile, [kSide * kPitch]);
  const int64_t index = blockIdx.x, image = index / (down * across);
  const int64_t r0 = index / across % down * kSide, c0 = index % across * kSide;
  const int place = static_cast<int>(threadIdx.x) % kAcross * kSize, line = static_cast<int>(threadIdx.x) / kAcross;
  from += image * rows * cols;
  to += image * rows * cols;
  // Read rows.
  for (int i = line; i < kSide; i += kStep)
    if (r0 + i < rows && c0 + place < cols) {
      const auto pack = load_pack<kSize>(from + (r0 + i) * cols + c0 + place);
#pragma unroll
      for (int e = 0; e < kSize; ++e) tile[i * kPitch + place + e] = pack.at[e];
    }
  __syncthreads();
  // Write columns.
  for (int i = line; i < kSide; i += kStep)
    if (c0 + i < cols && r0 + place < rows) {
      Pack<int8_t, kSize> pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e) pack.at[e] = tile[(place + e) * kPitch + i];
      store_pack(to + (c0 + i) * rows + r0 + place, pack);
    }
}

// One block of 128 threads per tile, in the order of Tiles. 64 KiB of dynamic shared memory. a: (batch, m, k), b:
// (batch, n, k), c: (batch, m, n). a_aligned, b_aligned: their rows begin at multiples of 16 bytes; pairs: those of c
// at multiples of 8.
__global__ void __launch_bounds__(TileInt8::kThreads, 2)
    product_int8_kernel(const int8_t* a, const int8_t* b, int* c, Tiles tiles, int64_t m, int64_t n, int64_t k,
                        bool a_aligned, bool b_aligned, bool pairs) {
  DUET_DYN_SHARED(int8_t, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * TileInt8::kTile, j0 = at.col * TileInt8::kTile;
  a += at.batch * m * k;
  b += at.batch * n * k;
  c += at.batch * m * n;

  // Multiply.
  TileInt8::Sums sums = {};
  TileInt8::multiply((k + TileInt8::kDepth - 1) / TileInt8::kDepth,
                     [&](int8_t* panel, int64_t step) { TileInt8::load(panel, a, i0, m, k, step, a_aligned); },
                     [&](int8_t* panel, int64_t step) { TileInt8::load(panel, b, j0, n, k, step, b_aligned); }, shared,
                     sums);

  // Write back.
  for_my_pairs(sums, [&](int i, int j, int first, int second) {
    const int64_t row = i0 + i, col = j0 + j;
    if (row >= m || col >= n) return;
    int* const to = c + row * n + col;
    if (pairs) {
      store_pack(to, Pack<int, 2>{{first, second}});
    } else {
      to[0] = first;
      if (col + 1 < n) to[1] = second;
    }
  });
}

// to (batch, count, k) = the transposes of from (batch, k, count).
void enqueue_transpose(const int8_t* from, int8_t* to, int64_t batch, int64_t k, int64_t count, cudaStream_t stream) {
  const int64_t down = ceil_div(k, kSide), across = ceil_div(count, kSide);
  const bool packs = k % 4 == 0 && count % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 4 == 0;
  launch(packs ? transpose_int8_kernel<4> : transpose_int8_kernel<1>,
         Grid{.blocks = batch * down * across, .threads = kTransposeThreads, .stream = stream}, from, to, k, count,
         down, across);
}

constexpr int64_t rounded(int64_t bytes) { return ceil_div(bytes, 16) * 16; }
}  // namespace

int64_t product_int8_workspace_bytes(const Product& p) {
  return (p.trans_a ? rounded(p.batch * p.m * p.k) : 0) + (p.trans_b ? 0 : p.batch * p.n * p.k);
}

std::pair<const int8_t*, const int8_t*> enqueue_contiguous_depth(const Product& p, const int8_t* a, const int8_t* b,
                                                                 int8_t* workspace, cudaStream_t stream) {
  if (p.trans_a) {
    enqueue_transpose(a, workspace, p.batch, p.k, p.m, stream);
    a = workspace;
    workspace += rounded(p.batch * p.m * p.k);
  }
  if (!p.trans_b) {
    enqueue_transpose(b, workspace, p.batch, p.k, p.n, stream);
    b = workspace;
  }
  return {a, b};
}

void enqueue_product_int8(const Product& p, const int8_t* stored_a, const int8_t* stored_b, int32_t* c,
                          int8_t* workspace, cudaStream_t stream) {
  if (p.batch * p.m * p.n == 0) return;
  const auto [a, b] = enqueue_contiguous_depth(p, stored_a, stored_b, workspace, stream);
  const Tiles tiles{ceil_div(p.m, TileInt8::kTile), ceil_div(p.n, TileInt8::kTile)};
  const Grid grid{.blocks = p.batch * tiles.down * tiles.across,
                  .threads = TileInt8::kThreads,
                  .shared_bytes = TileInt8::kSharedBytes,
                  .stream = stream};
  const bool whole = p.k % TileInt8::kChunk == 0, pairs = p.n % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 8 == 0;
  launch(product_int8_kernel, grid, a, b, c, tiles, p.m, p.n, p.k, whole && aligned16(a), whole && aligned16(b), pairs);
}

}  // namespace duet::DUET_DEVICE
