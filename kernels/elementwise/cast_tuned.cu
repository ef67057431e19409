// SPDX-License-Identifier: Apache-2.0
// One pack per thread, by map_kernel (vector.cuh): 16 bytes of the wider type.
#include <algorithm>

#include "kernels/vector.cuh"
#include "ops/elementwise/cast.h"

namespace duet::DUET_DEVICE {
namespace {
template <class To>
struct Convert {
  template <class From>
  __device__ To operator()(From x) const {
    return To(float(x));
  }
};

Plan cast_tuned(const Cast& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class From>() -> Plan {
    return for_float(p.to, [&]<class To>() -> Plan {
      return [p, stream = gpu.stream()](Args t) {
        constexpr int kSize = std::min(kPack<From>, kPack<To>);
        const From* x = t[Cast::x].as<const From>();
        To* y = t[Cast::y].as<To>();
        if (aligned16(x, y))
          launch(map_kernel<kSize, Convert<To>, To, From>, map_grid(p.n, kSize, stream), Convert<To>{}, p.n, y, x);
        else
          launch(map_kernel<1, Convert<To>, To, From>, map_grid(p.n, 1, stream), Convert<To>{}, p.n, y, x);
      };
    });
  });
}
DUET_REGISTER(cast_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
