// SPDX-License-Identifier: Apache-2.0
// One block per row counts the columns that rank above the label's, and leaves whether the row is right; a second
// launch of one thread adds these.
#include "core/plan.h"
#include "kernels/reduction/above.cuh"
#include "ops/reduction/accuracy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 128;

// One block of kThreads per row, kThreads integers of shared memory. x: (rows, cols), label, right: (rows).
template <class T>
__global__ void rows_kernel(const T* x, const int* label, int* right, int64_t cols, int64_t k) {
  DUET_SHARED(int, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  x += blockIdx.x * cols;
  const int64_t wanted = label[blockIdx.x];
  const bool valid = wanted >= 0 && wanted < cols;
  int before = 0;
  if (valid)
    for (int64_t c = thread; c < cols; c += kThreads) before += ranks_before(float(x[c]), c, float(x[wanted]), wanted);

  // Tree over the threads.
  part[thread] = before;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) right[blockIdx.x] = valid && part[0] < k ? 1 : 0;
}

// One thread.
__global__ void add_kernel(const int* right, int* correct, int64_t rows) {
  int sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += right[r];
  *correct = sum;
}

Plan accuracy_naive(const Accuracy& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto piece = workspace.add<int>(p.rows);
    return Plan([p, piece, stream = gpu.stream()](Args t) {
             int* right = t.workspace(piece);
             launch(rows_kernel<T>, Grid{.blocks = p.rows, .threads = kThreads, .stream = stream},
                    t[Accuracy::x].as<const T>(), t[Accuracy::label].as<const int>(), right, p.cols, p.k);
             launch(add_kernel, Grid{.blocks = 1, .threads = 1, .stream = stream}, right,
                    t[Accuracy::correct].as<int>(), p.rows);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(accuracy_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
