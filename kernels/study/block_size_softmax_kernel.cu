// SPDX-License-Identifier: Apache-2.0
// A block per row, of as many threads as the case says: maximum and sum in one pass, then the quotients.
#include "kernels/study/resident.h"
#include "kernels/vector.cuh"
#include "ops/study/block_size.h"

namespace duet::DUET_DEVICE {
namespace {
// One block per row; blockDim.x is a multiple of 32. 32 pairs of shared memory. x, y: (rows, cols).
__global__ void softmax_kernel(const float* x, float* y, int64_t cols) {
  DUET_SHARED(float, part_max, [32]);
  DUET_SHARED(float, part_sum, [32]);
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;

  // Each thread's share of the row, then each warp's.
  RunningSoftmax mine;
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) mine.add(load_pack<1>(x + c));
  const float warp_max = warp_reduce<MaxOp>(mine.max);
  const float warp_sum = warp_reduce<SumOp>(mine.sum_to(warp_max));
  if (threadIdx.x % 32 == 0) {
    part_max[threadIdx.x / 32] = warp_max;
    part_sum[threadIdx.x / 32] = warp_sum;
  }
  __syncthreads();

  // The whole row, in every thread in the same order.
  float max = -INFINITY, sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) max = fmaxf(max, part_max[w]);
  const float base = RunningSoftmax::base(max);
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w)
    sum += part_sum[w] * expf(RunningSoftmax::base(part_max[w]) - base);
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) y[c] = expf(x[c] - base) / sum;
}

Plan study_block_size_softmax_kernel(const BlockSizeSoftmax& p, GpuContext& gpu) {
  const int64_t threads = p.division.threads;
  if (threads == 0) return Unsupported{"a GPU has blocks: its rows are those with threads"};
  return Plan([p, threads, stream = gpu.stream()](Args t) {
           launch(softmax_kernel, Grid{.blocks = p.rows, .threads = threads, .stream = stream},
                  t[Softmax::x].as<const float>(), t[Softmax::y].as<float>(), p.cols);
         })
      .with(resident_text(softmax_kernel, static_cast<int>(threads), 0));
}
DUET_REGISTER(study_block_size_softmax_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
