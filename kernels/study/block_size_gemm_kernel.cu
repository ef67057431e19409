// SPDX-License-Identifier: Apache-2.0
// A block computes 32 columns of as many rows of c as it has warps, through tiles of a and b in shared memory.
#include "kernels/study/resident.h"
#include "ops/study/block_size.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kTile = 32;      // columns of a block, and the depth of a tile
constexpr int kMaxWarps = 32;  // rows of a block

// One block of (32, warps) per 32 columns and `warps` rows, in order along n, then m. Shared memory: a tile of a,
// (warps, 32), and of b, (32, 32). a: (m, k), b: (k, n), c: (m, n).
__global__ void gemm_kernel(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  DUET_SHARED(float, tile_a, [kMaxWarps][kTile]);
  DUET_SHARED(float, tile_b, [kTile][kTile]);
  const int warps = static_cast<int>(blockDim.y), lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t across = (n + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / across * warps + warp, col = blockIdx.x % across * kTile + lane;
  float sum = 0;
  for (int64_t p0 = 0; p0 < k; p0 += kTile) {
    tile_a[warp][lane] = row < m && p0 + lane < k ? a[row * k + p0 + lane] : 0;
    for (int p = warp; p < kTile; p += warps) tile_b[p][lane] = p0 + p < k && col < n ? b[(p0 + p) * n + col] : 0;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kTile; ++p) sum = fmaf(tile_a[warp][p], tile_b[p][lane], sum);
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

Plan study_block_size_gemm_kernel(const BlockSizeGemm& p, GpuContext& gpu) {
  const int64_t threads = p.division.threads, warps = threads / 32;
  if (threads == 0) return Unsupported{"a GPU has blocks: its rows are those with threads"};
  return Plan([p, warps, stream = gpu.stream()](Args t) {
           const Grid grid{
               .blocks = ceil_div(p.m, warps) * ceil_div(p.n, kTile), .threads = {kTile, warps}, .stream = stream};
           launch(gemm_kernel, grid, t[Gemm::a].as<const float>(), t[Gemm::b].as<const float>(), t[Gemm::c].as<float>(),
                  p.m, p.n, p.k);
         })
      .with(resident_text(gemm_kernel, static_cast<int>(threads), 0));
}
DUET_REGISTER(study_block_size_gemm_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
