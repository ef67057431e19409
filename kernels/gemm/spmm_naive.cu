// SPDX-License-Identifier: Apache-2.0
// One thread per element of c: the formula as written. The lanes of a warp have neighbours in a row of c: they read the
// same entries of a, and neighbours in rows of b.
#include "simt/launch.h"
#include "ops/gemm/spmm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(m n / kThreads) blocks of kThreads, no shared memory. value, col: (nnz), row: (m + 1), b: (k, n), c: (m, n).
template <class T>
__global__ void spmm_kernel(const T* value, const int32_t* col, const int32_t* row, const T* b, T* c, int64_t elements,
                            int64_t k, int64_t n, int64_t nnz) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t i = index / n, j = index % n;
  const int64_t first = max(int64_t{0}, int64_t{row[i]}), last = min(nnz, int64_t{row[i + 1]});
  float sum = 0;
  for (int64_t e = first; e < last; ++e)
    if (col[e] >= 0 && col[e] < k) sum += float(value[e]) * float(b[col[e] * n + j]);
  c[index] = T(sum);
}

Plan spmm_naive(const Spmm& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.m * p.n;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(spmm_kernel<T>, grid, t[Spmm::value].as<const T>(), t[Spmm::col].as<const int32_t>(),
             t[Spmm::row].as<const int32_t>(), t[Spmm::b].as<const T>(), t[Spmm::c].as<T>(), elements, p.k, p.n, p.nnz);
    };
  });
}
DUET_REGISTER(spmm_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
