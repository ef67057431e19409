// SPDX-License-Identifier: Apache-2.0
// A block transposes a tile of 32 by 32 words through shared memory: its rows are 32 words long, so that a column lies
// in one bank and its 32 reads follow each other, or 33.
#include "ops/study/bank_conflict.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kTile = 32, kRows = 8;  // of a tile; threads along its rows

// One block of (32, 8) per tile, in order along cols, then rows. x: (rows, cols), y: (cols, rows).
template <int kPitch>
__global__ void __launch_bounds__(kTile* kRows) tile_kernel(const float* x, float* y, int64_t rows, int64_t cols) {
  DUET_SHARED(float, tile, [kTile][kPitch]);
  const int64_t across = (cols + kTile - 1) / kTile;
  const int64_t r0 = blockIdx.x / across * kTile, c0 = blockIdx.x % across * kTile;
  const int lane = static_cast<int>(threadIdx.x), first = static_cast<int>(threadIdx.y);
#pragma unroll
  for (int i = first; i < kTile; i += kRows)
    if (r0 + i < rows && c0 + lane < cols) tile[i][lane] = x[(r0 + i) * cols + c0 + lane];
  __syncthreads();
#pragma unroll
  for (int i = first; i < kTile; i += kRows)
    if (c0 + i < cols && r0 + lane < rows) y[(c0 + i) * rows + r0 + lane] = tile[lane][i];
}

Plan study_bank_conflict_kernel(const BankConflict& p, GpuContext& gpu) {
  const Grid grid{
      .blocks = ceil_div(p.rows, kTile) * ceil_div(p.cols, kTile), .threads = {kTile, kRows}, .stream = gpu.stream()};
  return Plan([p, grid](Args t) {
           launch(p.pad ? tile_kernel<kTile + 1> : tile_kernel<kTile>, grid, t[BankConflict::x].as<const float>(),
                  t[BankConflict::y].as<float>(), p.rows, p.cols);
         })
      .with(p.pad ? "a tile 33 words wide" : "a tile 32 words wide");
}
DUET_REGISTER(study_bank_conflict_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
