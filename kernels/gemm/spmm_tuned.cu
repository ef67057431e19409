// SPDX-License-Identifier: Apache-2.0
// Many columns: a warp forms a row of c for 32 packs of columns. Its lanes load 32 entries of a at a time and pass them
// round by shuffles; each entry is then one access of 16 bytes a lane to a row of b. Blocks of neighbouring rows and
// the same columns run at the same time, so that their rows of b come from L2.
// Few columns (at most kNarrow): a warp forms a row of c with its lanes over the entries.
#include "kernels/vector.cuh"
#include "ops/gemm/spmm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kNarrow = 4;

// a: value and col (nnz), row (m + 1).
template <class T>
struct Rows {
  const T* value;
  const int32_t *col, *row;
  int64_t m, k, nnz;
  // The entries of row i that exist.
  __device__ __forceinline__ int64_t first(int64_t i) const { return max(int64_t{0}, int64_t{row[i]}); }
  __device__ __forceinline__ int64_t last(int64_t i) const { return min(nnz, int64_t{row[i + 1]}); }
  __device__ __forceinline__ bool has(int32_t column) const { return column >= 0 && column < k; }
};

// ceil(m / 8) blocks for each 32 kSize columns, of 256 threads, no shared memory. All are along x: y takes 65535 at
// most. b: (k, n), c: (m, n). kSize > 1: rows of b and c consist of whole packs, aligned.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads) wide_kernel(Rows<T> a, const T* b, T* c, int64_t n) {
  const auto blocks_down = static_cast<unsigned>((a.m + kWarps - 1) / kWarps);
  const int64_t i = int64_t{blockIdx.x % blocks_down} * kWarps + threadIdx.x / 32;
  if (i >= a.m) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t j = (int64_t{blockIdx.x / blocks_down} * 32 + lane) * kSize;
  const bool exists = j < n;
  float sum[kSize] = {};
  const int64_t last = a.last(i);
  for (int64_t e = a.first(i); e < last; e += 32) {
    // 32 entries, one a lane; the column -1 for those that do not exist.
    const int count = static_cast<int>(min(int64_t{32}, last - e));
    const int32_t mine = lane < count ? a.col[e + lane] : -1;
    const float factor = a.has(mine) ? float(a.value[e + lane]) : 0;
    const int32_t column = a.has(mine) ? mine : -1;
#pragma unroll 4
    for (int s = 0; s < count; ++s) {
      const float f = __shfl_sync(0xffffffffu, factor, s);
      const int32_t from = __shfl_sync(0xffffffffu, column, s);
      if (exists && from >= 0) {
        const auto v = load_pack<kSize>(b + from * n + j);
#pragma unroll
        for (int u = 0; u < kSize; ++u) sum[u] += f * float(v.at[u]);
      }
    }
  }
  if (!exists) return;
  Pack<T, kSize> out;
#pragma unroll
  for (int u = 0; u < kSize; ++u) out.at[u] = T(sum[u]);
  store_pack(c + i * n + j, out);
}

// ceil(m / 8) blocks of 256 threads, no shared memory. n is at most kNarrow.
template <class T>
__global__ void __launch_bounds__(kThreads) narrow_kernel(Rows<T> a, const T* b, T* c, int n) {
  const int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (i >= a.m) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum[kNarrow] = {};
  const int64_t last = a.last(i);
  for (int64_t e = a.first(i) + lane; e < last; e += 32) {
    const int32_t column = a.col[e];
    if (!a.has(column)) continue;
    const float factor = float(a.value[e]);
    const T* from = b + int64_t{column} * n;
#pragma unroll
    for (int j = 0; j < kNarrow; ++j)
      if (j < n) sum[j] += factor * float(from[j]);
  }
#pragma unroll
  for (int j = 0; j < kNarrow; ++j) {
    if (j >= n) break;
    const float whole = warp_reduce<SumOp>(sum[j]);
    if (lane == 0) c[i * n + j] = T(whole);
  }
}

Plan spmm_tuned(const Spmm& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const Rows<T> a{t[Spmm::value].as<const T>(),
                      t[Spmm::col].as<const int32_t>(),
                      t[Spmm::row].as<const int32_t>(),
                      p.m,
                      p.k,
                      p.nnz};
      const T* b = t[Spmm::b].as<const T>();
      T* c = t[Spmm::c].as<T>();
      const int64_t rows = ceil_div(p.m, kWarps);
      if (p.n <= kNarrow) {
        if (p.n > 0)
          launch(narrow_kernel<T>, Grid{.blocks = rows, .threads = kThreads, .stream = stream}, a, b, c,
                 static_cast<int>(p.n));
        return;
      }
      const auto run = [&]<int kSize>() {
        launch(wide_kernel<T, kSize>,
               Grid{.blocks = rows * ceil_div(p.n, 32 * kSize), .threads = kThreads, .stream = stream}, a, b, c, p.n);
      };
      p.n % kPack<T> == 0 && aligned16(b, c) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(spmm_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
