// SPDX-License-Identifier: Apache-2.0
// One element per thread, in blocks of as many threads as the case says.
#include "kernels/study/resident.h"
#include "ops/study/block_size.h"

namespace duet::DUET_DEVICE {
namespace {
// ceil(n / blockDim.x) blocks. a, b, c: (n).
__global__ void add_kernel(const float* a, const float* b, float* c, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

Plan study_block_size_add_kernel(const BlockSizeAdd& p, GpuContext& gpu) {
  const int64_t threads = p.division.threads;
  if (threads == 0) return Unsupported{"a GPU has blocks: its rows are those with threads"};
  return Plan([p, threads, stream = gpu.stream()](Args t) {
           launch(add_kernel, Grid{.blocks = ceil_div(p.n, threads), .threads = threads, .stream = stream},
                  t[Add::a].as<const float>(), t[Add::b].as<const float>(), t[Add::c].as<float>(), p.n);
         })
      .with(resident_text(add_kernel, static_cast<int>(threads), 0));
}
DUET_REGISTER(study_block_size_add_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
