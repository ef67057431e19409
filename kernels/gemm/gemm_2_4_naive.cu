// SPDX-License-Identifier: Apache-2.0
// One thread per element of c: the formula as written, over the kept values. The lanes of a warp have 32 neighbours in
// a row of c, so that reads of b coalesce and those of value and meta are the same in all lanes.
#include "simt/launch.h"
#include "ops/gemm/gemm_2_4.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(m n / kThreads) blocks of kThreads, no shared memory. value: (m, k / 2), meta: (m, k / 8), b: (k, n), c: (m, n).
template <class T>
__global__ void gemm_2_4_kernel(const T* value, const uint8_t* meta, const T* b, T* c, int64_t elements, int64_t n,
                                int64_t k) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t i = index / n, j = index % n;
  value += i * (k / 2);
  meta += i * (k / 8);
  float sum = 0;
  for (int64_t s = 0; s < k / 2; ++s) {
    const int places = meta[s / 4] >> (4 * (s / 2 % 2)) & 15, first = places & 3, second = places >> 2;
    if (s % 2 == 0 && first == second) continue;
    const int64_t place = s / 2 * 4 + (s % 2 == 0 ? first : second);
    sum += float(value[s]) * float(b[place * n + j]);
  }
  c[index] = T(sum);
}

Plan gemm_2_4_naive(const Gemm24& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.m * p.n;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(gemm_2_4_kernel<T>, grid, t[Gemm24::value].as<const T>(), t[Gemm24::meta].as<const uint8_t>(),
             t[Gemm24::b].as<const T>(), t[Gemm24::c].as<T>(), elements, p.n, p.k);
    };
  });
}
DUET_REGISTER(gemm_2_4_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
