// SPDX-License-Identifier: Apache-2.0
#include "core/grid.h"

#include "core/error.h"

namespace duet {
namespace {
constexpr Extent kMaxBlocks{2147483647, 65535, 65535}, kMaxThreads{1024, 1024, 64};
constexpr int64_t kMaxThreadsPerBlock = 1024;

void within(const char* what, const Extent& got, const Extent& max) {
  if (got.x > max.x || got.y > max.y || got.z > max.z)
    throw Error("launch: {} {} x {} x {} over the limit {} x {} x {}", what, got.x, got.y, got.z, max.x, max.y, max.z);
}
}  // namespace

bool launchable(const Grid& grid) {
  const Extent &b = grid.blocks, &t = grid.threads;
  if (b.x <= 0 || b.y <= 0 || b.z <= 0) return false;
  if (t.x <= 0 || t.y <= 0 || t.z <= 0) throw Error("launch: a block of {} x {} x {} threads", t.x, t.y, t.z);
  within("grid", b, kMaxBlocks);
  within("block", t, kMaxThreads);
  if (t.count() > kMaxThreadsPerBlock)
    throw Error("launch: {} threads a block over the limit {}", t.count(), kMaxThreadsPerBlock);
  if (grid.shared_bytes < 0) throw Error("launch: {} bytes of shared memory", grid.shared_bytes);
  return true;
}

}  // namespace duet
