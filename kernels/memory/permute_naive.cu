// SPDX-License-Identifier: Apache-2.0
// One thread per element of y, in order: writes coalesce, and reads do in runs of D elements.
#include "simt/launch.h"
#include "ops/memory/permute.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. One of x and y is (S, B, H, T, D), by heads, the
// other is (B, T, S, H, D), by tokens.
template <class T>
__global__ void permute_kernel(const T* x, T* y, int64_t elements, Permute p) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t d = i % p.D, run = i / p.D;
  if (p.inverse) {
    const int64_t h = run % p.H, s = run / p.H % p.split, t = run / p.H / p.split % p.T, b = run / p.H / p.split / p.T;
    y[i] = x[(((s * p.B + b) * p.H + h) * p.T + t) * p.D + d];
  } else {
    const int64_t t = run % p.T, h = run / p.T % p.H, b = run / p.T / p.H % p.B, s = run / p.T / p.H / p.B;
    y[i] = x[(((b * p.T + t) * p.split + s) * p.H + h) * p.D + d];
  }
}

Plan permute_naive(const Permute& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.rows() * p.D;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(permute_kernel<T>, grid, t[Permute::x].as<const T>(), t[Permute::y].as<T>(), elements, p);
    };
  });
}
DUET_REGISTER(permute_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
