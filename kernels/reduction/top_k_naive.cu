// SPDX-License-Identifier: Apache-2.0
// One block per row, which reads it k times: each time it looks for the largest element below the one found before.
#include "kernels/reduction/rank_key.cuh"
#include "ops/reduction/top_k.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 128;

// One block of kThreads per row, kThreads keys of shared memory. x: (rows, cols), value, index: (rows, k).
template <class T>
__global__ void top_k_kernel(const T* x, T* value, int* index, int64_t cols, int64_t k) {
  DUET_SHARED(RankKey, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  x += blockIdx.x * cols;
  RankKey last = ~RankKey{0};  // above every key
  for (int64_t i = 0; i < k; ++i) {
    RankKey largest = 0;
    for (int64_t c = thread; c < cols; c += kThreads) {
      const RankKey key = rank_key(float(x[c]), static_cast<int>(c));
      if (key < last && key > largest) largest = key;
    }

    // Tree over the threads.
    part[thread] = largest;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half && part[thread + half] > part[thread]) part[thread] = part[thread + half];
    }
    __syncthreads();
    last = part[0];
    if (thread == 0) {
      value[blockIdx.x * k + i] = x[column_of(last)];
      index[blockIdx.x * k + i] = column_of(last);
    }
    __syncthreads();
  }
}

Plan top_k_naive(const TopK& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = p.rows, .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(top_k_kernel<T>, grid, t[TopK::x].as<const T>(), t[TopK::value].as<T>(), t[TopK::index].as<int>(), p.cols,
             p.k);
    };
  });
}
DUET_REGISTER(top_k_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
