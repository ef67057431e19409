// SPDX-License-Identifier: Apache-2.0
// A row of y belongs to as many lanes as it has packs of 16 bytes, rounded up to a power of two: a block of 256 threads
// has 256 lanes of one long row, or 256 short rows. No thread divides.
#include <algorithm>
#include <bit>

#include "kernels/vector.cuh"
#include "ops/memory/gather.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Blocks of (lanes, kThreads / lanes), one for as many rows as threadIdx.y has values; no shared memory. cols is a
// multiple of kSize, and rows are aligned to kSize elements. x: (rows, cols), index: (n), y: (n, cols).
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const T* x, const int32_t* index, T* y, int64_t n, int64_t rows, int64_t cols) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (i >= n) return;
  const int64_t row = index[i];
  const bool known = row >= 0 && row < rows;
#pragma unroll 4
  for (int64_t c = int64_t{threadIdx.x} * kSize; c < cols; c += int64_t{blockDim.x} * kSize) {
    Pack<T, kSize> pack;
#pragma unroll
    for (int e = 0; e < kSize; ++e) pack.at[e] = T(0.0f);
    if (known) pack = load_pack<kSize>(x + row * cols + c);
    store_pack(y + i * cols + c, pack);
  }
}

Plan gather_tuned(const Gather& p, GpuContext& gpu) {
  using P = Gather;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>();
      T* y = t[P::y].as<T>();
      const auto run = [&]<int kSize>() {
        const auto packs = static_cast<uint64_t>(std::clamp<int64_t>(ceil_div(p.cols, kSize), 1, kThreads));
        const auto lanes = static_cast<int64_t>(std::bit_ceil(packs));
        const Grid grid{
            .blocks = ceil_div(p.n, kThreads / lanes), .threads = {lanes, kThreads / lanes}, .stream = stream};
        launch(gather_kernel<T, kSize>, grid, x, t[P::index].as<const int32_t>(), y, p.n, p.rows, p.cols);
      };
      if (p.cols % kPack<T> == 0 && aligned16(x, y))
        run.template operator()<kPack<T>>();
      else
        run.template operator()<1>();
    };
  });
}
DUET_REGISTER(gather_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
