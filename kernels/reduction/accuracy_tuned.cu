// SPDX-License-Identifier: Apache-2.0
// A warp takes a row, or a block a long one, in packs of 16 bytes, and counts the columns that rank above the label's.
// Each block leaves how many of its rows are right; a second launch of one block adds these. All are whole numbers.
#include "core/plan.h"
#include "kernels/reduction/above.cuh"
#include "kernels/vector.cuh"
#include "ops/reduction/accuracy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kWarp = 32, kBlock = 256;  // threads for one row
constexpr int64_t kMaxWarpCols = 1024;   // up to this length a row is taken by a warp

__device__ __forceinline__ int warp_sum(int v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xffffffffu, v, distance);
  return v;
}

// The sum of v over a block of (x, y) threads with 256 in all, for the first thread. part: 8 integers of shared memory.
__device__ __forceinline__ int block_sum(int v, int* part) {
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  v = warp_sum(v);
  if (thread % 32 == 0) part[thread / 32] = v;
  __syncthreads();
  int sum = 0;
  if (thread == 0)
    for (int w = 0; w < kBlock / 32; ++w) sum += part[w];
  return sum;
}

// right[block] = how many rows of the block are right. kThreads = 32: blocks of (32, 8), a warp for each of 8 rows.
// kThreads = 256: one block for each row. 32 bytes of shared memory. x: (rows, cols), label: (rows).
template <class T, int kThreads>
__global__ void __launch_bounds__(kBlock)
    rows_kernel(const T* x, const int* label, int* right, int64_t rows, int64_t cols, int64_t k) {
  DUET_SHARED(int, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const int wanted = row < rows ? label[row] : -1;
  const bool valid = wanted >= 0 && wanted < cols;
  int before = 0;
  if (valid) {
    x += row * cols;
    const float score = float(x[wanted]);
    for_row<kThreads, kPack<T>>(x, cols, [&](const auto& pack, int64_t c) {
      constexpr int kSize = sizeof(pack.at) / sizeof(T);
      const int first = static_cast<int>(c);
#pragma unroll
      for (int e = 0; e < kSize; ++e) before += ranks_before(float(pack.at[e]), first + e, score, wanted);
    });
  }
  if constexpr (kThreads == kWarp) {
    before = warp_sum(before);
    const int sum = block_sum(threadIdx.x == 0 && valid && before < k ? 1 : 0, part);
    if (threadIdx.x == 0 && threadIdx.y == 0) right[blockIdx.x] = sum;
  } else {
    const int sum = block_sum(before, part);
    if (threadIdx.x == 0) right[blockIdx.x] = valid && sum < k ? 1 : 0;
  }
}

// One block of kBlock: *correct = the sum of right, (parts).
__global__ void __launch_bounds__(kBlock) add_kernel(const int* right, int* correct, int64_t parts) {
  DUET_SHARED(int, part, [kBlock / 32]);
  int sum = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kBlock) sum += right[i];
  sum = block_sum(sum, part);
  if (threadIdx.x == 0) *correct = sum;
}

Plan accuracy_tuned(const Accuracy& p, GpuContext& gpu) {
  if (p.cols > INT32_MAX) return Unsupported{"2^31 columns or more"};
  const bool warp_per_row = p.cols <= kMaxWarpCols;
  const int64_t parts = warp_per_row ? ceil_div(p.rows, kBlock / kWarp) : p.rows;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto piece = workspace.add<int>(parts);
    return Plan([p, warp_per_row, parts, piece, stream = gpu.stream()](Args t) {
             int* right = t.workspace(piece);
             const T* x = t[Accuracy::x].as<const T>();
             const int* label = t[Accuracy::label].as<const int>();
             if (warp_per_row)
               launch(rows_kernel<T, kWarp>,
                      Grid{.blocks = parts, .threads = {kWarp, kBlock / kWarp}, .stream = stream}, x, label, right,
                      p.rows, p.cols, p.k);
             else
               launch(rows_kernel<T, kBlock>, Grid{.blocks = parts, .threads = kBlock, .stream = stream}, x, label,
                      right, p.rows, p.cols, p.k);
             launch(add_kernel, Grid{.blocks = 1, .threads = kBlock, .stream = stream}, right,
                    t[Accuracy::correct].as<int>(), parts);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(accuracy_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
