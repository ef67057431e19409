// SPDX-License-Identifier: Apache-2.0
// study/bank_conflict on the CPU: a tile of 64 by 64 elements in memory of its own, one for each thread. Its rows are
// 4 KiB apart, or 4 KiB and a line. Rows of x are copied to the tile, and its columns are written as rows of y.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/bank_conflict.h"

namespace duet {
namespace {

constexpr int64_t kTile = 64;                // rows and columns
constexpr int64_t kPage = 1024, kLine = 16;  // elements of 4 KiB and of a line

Plan study_bank_conflict_tuned(const BankConflict& p, CpuContext& cpu) {
  const int64_t pitch = kPage + (p.pad ? kLine : 0);
  WorkspaceLayout workspace;
  const auto tiles = workspace.add<float>(cpu.threads() * kTile * pitch);
  return Plan([p, pitch, tiles, &cpu](Args t) {
           const auto* x = t[BankConflict::x].as<const float>();
           auto* y = t[BankConflict::y].as<float>();
           float* const memory = t.workspace(tiles);
           const int64_t across = ceil_div(p.cols, kTile);
           cpu.parallel_for(ceil_div(p.rows, kTile) * across, 4, [&](int64_t first, int64_t last) {
             float* const tile = memory + CpuContext::thread_index() * kTile * pitch;
             for (int64_t number = first; number < last; ++number) {
               const int64_t r0 = number / across * kTile, c0 = number % across * kTile;
               const int64_t rows = std::min(kTile, p.rows - r0), cols = std::min(kTile, p.cols - c0);
               for (int64_t r = 0; r < rows; ++r)
                 std::memcpy(tile + r * pitch, x + (r0 + r) * p.cols + c0, static_cast<size_t>(cols) * sizeof(float));
               for (int64_t c = 0; c < cols; ++c) {
                 float* const to = y + (c0 + c) * p.rows + r0;
                 for (int64_t r = 0; r < rows; ++r) to[r] = tile[r * pitch + c];
               }
             }
           });
         })
      .with(p.pad ? "rows of the tile 4 KiB and a line apart" : "rows of the tile 4 KiB apart: one set of the L1 cache",
            workspace);
}
DUET_REGISTER(study_bank_conflict_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
