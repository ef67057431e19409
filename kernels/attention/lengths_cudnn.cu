// SPDX-License-Identifier: Apache-2.0
// One thread per sequence.
#include "simt/launch.h"
#include "kernels/attention/lengths_cudnn.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(B / kThreads) blocks of kThreads, no shared memory. lengths, queries, keys: (B).
__global__ void lengths_kernel(const int32_t* lengths, int32_t* queries, int32_t* keys, int64_t B, int32_t Tq,
                               int32_t Tk) {
  const int64_t b = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (b >= B) return;
  queries[b] = Tq;
  keys[b] = min(Tk, max(1, lengths[b]));
}
}  // namespace

void enqueue_lengths(const AttentionShape& p, const int32_t* lengths, int32_t* queries, int32_t* keys,
                     cudaStream_t stream) {
  launch(lengths_kernel, Grid{.blocks = ceil_div(p.B, kThreads), .threads = kThreads, .stream = stream}, lengths,
         queries, keys, p.B, static_cast<int32_t>(p.Tq), static_cast<int32_t>(p.Tk));
}

}  // namespace duet::DUET_DEVICE
