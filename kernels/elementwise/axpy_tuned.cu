// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh).
#include "kernels/vector.cuh"
#include "ops/elementwise/axpy.h"

namespace duet::DUET_DEVICE {
namespace {
struct AddMultiple {
  float alpha;
  template <class T>
  __device__ T operator()(T y, T x) const {
    return T(fmaf(alpha, float(x), float(y)));
  }
};

Plan axpy_tuned(const Axpy& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const auto alpha = static_cast<float>(p.alpha);
      if (alpha == 0) return;
      T* y = t[Axpy::y].as<T>();
      launch_map(stream, AddMultiple{alpha}, p.n, y, static_cast<const T*>(y), t[Axpy::x].as<const T>());
    };
  });
}
DUET_REGISTER(axpy_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
