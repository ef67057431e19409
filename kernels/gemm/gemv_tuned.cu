// SPDX-License-Identifier: Apache-2.0
// Every element of a is read once, by accesses of 16 bytes.
//   Rows along x (trans = 0): a warp forms a sum.
//   Rows along y (trans = 1): a thread forms the sums of a pack of columns, over every eighth row; the 8 warps of a
//   block add theirs in shared memory.
// Where that gives the GPU too few blocks, each sum is divided into parts, which leave f32 sums in the workspace. A
// second kernel adds them in order.
#include "kernels/vector.cuh"
#include "ops/gemm/gemv.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kUnroll = 4;  // accesses of a thread that are under way at a time

// Terms [first, last) of part blockIdx.y, which ends at a multiple of `terms` or at n.
struct Part {
  int64_t first, last;
  __device__ Part(int64_t terms, int64_t n) : first(int64_t{blockIdx.y} * terms), last(min(n, first + terms)) {}
};

// Blocks: (ceil(m / 8), parts) of 256 threads, no shared memory. A warp forms the sum of row 8 blockIdx.x + warp.
// a: (m, n); y: (m) for whole sums; partial: (parts, m), or null where there is one part. kSize > 1: rows of a, x and
// parts are aligned to packs.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const T* a, const T* x, T* y, float* partial, int64_t m, int64_t n, int64_t terms) {
  const int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const Part part(terms, n);
  if (i >= m) return;
  a += i * n;
  float sum = 0;
  int64_t j = part.first + threadIdx.x % 32 * kSize;
  for (; j + (kUnroll - 1) * 32 * kSize < part.last; j += kUnroll * 32 * kSize) {
    Pack<T, kSize> v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) v[u] = load_pack<kSize>(a + j + u * 32 * kSize);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const auto w = load_pack<kSize>(x + j + u * 32 * kSize);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum += float(v[u].at[e]) * float(w.at[e]);
    }
  }
  for (; j < part.last; j += 32 * kSize) {
    const auto v = load_pack<kSize>(a + j), w = load_pack<kSize>(x + j);
#pragma unroll
    for (int e = 0; e < kSize; ++e) sum += float(v.at[e]) * float(w.at[e]);
  }
  sum = warp_reduce<SumOp>(sum);
  if (threadIdx.x % 32 != 0) return;
  if (partial)
    partial[int64_t{blockIdx.y} * m + i] = sum;
  else
    y[i] = T(sum);
}

// Blocks: (ceil(m / (32 kSize)), parts) of 256 threads, 1 KiB of shared memory for each element of a pack. a: (n, m);
// y and partial as above.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    columns_kernel(const T* a, const T* x, T* y, float* partial, int64_t m, int64_t n, int64_t terms) {
  constexpr int kColumns = 32 * kSize;
  DUET_SHARED(float, sums, [kWarps][kColumns]);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t i = int64_t{blockIdx.x} * kColumns + lane * kSize;
  const Part part(terms, n);
  float sum[kSize] = {};
  if (i < m) {
    int64_t j = part.first + warp;
    for (; j + (kUnroll - 1) * kWarps < part.last; j += kUnroll * kWarps) {
      Pack<T, kSize> v[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) v[u] = load_pack<kSize>(a + (j + u * kWarps) * m + i);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const float factor = float(x[j + u * kWarps]);
#pragma unroll
        for (int e = 0; e < kSize; ++e) sum[e] += factor * float(v[u].at[e]);
      }
    }
    for (; j < part.last; j += kWarps) {
      const auto v = load_pack<kSize>(a + j * m + i);
      const float factor = float(x[j]);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += factor * float(v.at[e]);
    }
  }

  // Add the sums of the warps: a thread for each column.
#pragma unroll
  for (int e = 0; e < kSize; ++e) sums[warp][lane + 32 * e] = sum[e];  // not at lane * kSize + e: bank conflicts
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kColumns) return;
  const int64_t to = int64_t{blockIdx.x} * kColumns + column;
  if (to >= m) return;
  const int at = column / kSize + 32 * (column % kSize);
  float whole = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) whole += sums[w][at];
  if (partial)
    partial[int64_t{blockIdx.y} * m + to] = whole;
  else
    y[to] = T(whole);
}

// One thread for each element of y. partial: (parts, m).
template <class T>
__global__ void __launch_bounds__(kThreads) parts_kernel(const float* partial, T* y, int64_t m, int64_t parts) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= m) return;
  float sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += partial[part * m + i];
  y[i] = T(sum);
}

Plan gemv_tuned(const Gemv& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    constexpr int64_t kBlocksPerMultiprocessor = 8, kMinTerms = 512;
    const int64_t wide = p.trans ? 32 * kPack<T> : kWarps;  // elements of y that a block forms, with whole packs
    const int64_t wanted =
        ceil_div(kBlocksPerMultiprocessor * gpu.multiprocessors(), std::max<int64_t>(1, ceil_div(p.m, wide)));
    const int64_t min_terms = p.trans ? kMinTerms / 4 : 4 * kMinTerms;
    const int64_t divided = std::max<int64_t>(1, std::min(wanted, p.n / min_terms));
    const int64_t terms = ceil_div(std::max<int64_t>(1, ceil_div(p.n, divided)), 8) * 8;  // whole packs
    const int64_t parts = std::max<int64_t>(1, ceil_div(p.n, terms));
    WorkspaceLayout workspace;
    const auto partial = workspace.add<float>(parts > 1 ? parts * p.m : 0);
    auto run = [=, stream = gpu.stream()](Args t) {
      const T *a = t[Gemv::a].as<const T>(), *x = t[Gemv::x].as<const T>();
      T* y = t[Gemv::y].as<T>();
      float* sums = t.workspace(partial);
      const auto sum = [&]<int kSize>() {
        const int64_t per_block = p.trans ? 32 * kSize : kWarps;
        const Grid grid{.blocks = {ceil_div(p.m, per_block), parts}, .threads = kThreads, .stream = stream};
        launch(p.trans ? columns_kernel<T, kSize> : rows_kernel<T, kSize>, grid, a, x, y, sums, p.m, p.n, terms);
      };
      const bool packs = (p.trans ? p.m : p.n) % kPack<T> == 0 && aligned16(a) && (p.trans || aligned16(x));
      packs ? sum.template operator()<kPack<T>>() : sum.template operator()<1>();
      if (parts > 1)
        launch(parts_kernel<T>, Grid{.blocks = ceil_div(p.m, kThreads), .threads = kThreads, .stream = stream},
               static_cast<const float*>(sums), y, p.m, parts);
    };
    return Plan(std::move(run)).with(parts > 1 ? "sums in parts" : "whole sums", std::move(workspace));
  });
}
DUET_REGISTER(gemv_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
