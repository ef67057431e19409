// SPDX-License-Identifier: Apache-2.0
// One pack per thread, written as 16 bytes. A thread whose pack has an element that is not finite sets the flag once; a
// first launch clears it.
#include "kernels/vector.cuh"
#include "ops/elementwise/unscale.h"

namespace duet::DUET_DEVICE {
namespace {
__global__ void clear_kernel(int32_t* bad) { *bad = 0; }  // one thread

// A map_grid(n, kSize), no shared memory. g, y: (n), scale, bad: (1); y may be g.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    unscale_kernel(const T* g, const float* scale, float* y, int32_t* bad, int64_t n) {
  const float inverse = 1 / *scale;
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const auto pack = load_pack<kWidth>(g + i);
    Pack<float, kWidth> out;
    bool finite = true;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float v = float(pack.at[e]);
      finite = finite && fabsf(v) < INFINITY;
      out.at[e] = v * inverse;
    }
    if (!finite) atomicOr(bad, 1);
    store_pack(y + i, out);
  });
}

Plan unscale_tuned(const Unscale& p, GpuContext& gpu) {
  using P = Unscale;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* g = t[P::g].as<const T>();
      float* y = t[P::y].as<float>();
      const float* scale = t[P::scale].as<const float>();
      int32_t* bad = t[P::bad].as<int32_t>();
      launch(clear_kernel, Grid{.stream = stream}, bad);
      if (aligned16(g, y))
        launch(unscale_kernel<T, kPack<float>>, map_grid(p.n, kPack<float>, stream), g, scale, y, bad, p.n);
      else
        launch(unscale_kernel<T, 1>, map_grid(p.n, 1, stream), g, scale, y, bad, p.n);
    };
  });
}
DUET_REGISTER(unscale_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
