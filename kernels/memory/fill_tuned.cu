// SPDX-License-Identifier: Apache-2.0
// One 16-byte store per thread, by map_kernel (vector.cuh).
#include "kernels/vector.cuh"
#include "ops/memory/fill.h"

namespace duet::DUET_DEVICE {
namespace {
template <class T>
struct Value {
  float value;
  __device__ T operator()() const { return T(value); }
};

Plan fill_tuned(const FillValue& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Value<T> op{static_cast<float>(round_to(p.dtype, p.value))};
    return [p, op, stream = gpu.stream()](Args t) { launch_map(stream, op, p.n, t[FillValue::y].as<T>()); };
  });
}
DUET_REGISTER(fill_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
