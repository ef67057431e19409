// SPDX-License-Identifier: Apache-2.0
// Three 16-byte accesses per thread, by map_kernel (vector.cuh); sums are in f32.
#include "kernels/vector.cuh"
#include "ops/elementwise/add.h"

namespace duet::DUET_DEVICE {
namespace {
struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return T(float(a) + float(b));
  }
};

struct PositivePlus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return T(fmaxf(float(a) + float(b), 0));
  }
};

Plan add_tuned(const Add& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const auto run = [&](auto op) {
        launch_map(stream, op, p.n, t[Add::c].as<T>(), t[Add::a].as<const T>(), t[Add::b].as<const T>());
      };
      p.act == Act::relu ? run(PositivePlus{}) : run(Plus{});
    };
  });
}
DUET_REGISTER(add_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
