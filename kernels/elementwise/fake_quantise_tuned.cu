// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack per thread and tensor, by launch_channel_map (channels.cuh).
#include "kernels/elementwise/channels.cuh"
#include "ops/elementwise/fake_quantise.h"

namespace duet::DUET_DEVICE {
namespace {
struct NearestLevel {
  int lo, hi;
  template <class T>
  __device__ T operator()(float scale, int zero, T x) const {
    const int z = clamp_level(zero, lo, hi);
    return T(static_cast<float>(clamp_level(unclamped_level(float(x), scale, z), lo, hi) - z) * scale);
  }
};

Plan fake_quantise_tuned(const FakeQuantise& p, GpuContext& gpu) {
  using P = FakeQuantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const NearestLevel op{static_cast<int>(p.lo), static_cast<int>(p.hi)};
      launch_channel_map<kPack<T>>(stream, op, p.outer, p.c, p.inner, t[P::scale].as<const float>(),
                                   t[P::zero].as<const int32_t>(), t[P::y].as<T>(), t[P::x].as<const T>());
    };
  });
}
DUET_REGISTER(fake_quantise_tuned);

struct PassUnclamped {
  int lo, hi;
  template <class T>
  __device__ T operator()(float scale, int zero, T x, T dy) const {
    const int level = unclamped_level(float(x), scale, clamp_level(zero, lo, hi));
    return level >= lo && level <= hi ? dy : T(0.0f);
  }
};

Plan fake_quantise_backward_tuned(const FakeQuantiseBackward& p, GpuContext& gpu) {
  using P = FakeQuantiseBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const PassUnclamped op{static_cast<int>(p.lo), static_cast<int>(p.hi)};
      launch_channel_map<kPack<T>>(stream, op, p.outer, p.c, p.inner, t[P::scale].as<const float>(),
                                   t[P::zero].as<const int32_t>(), t[P::dx].as<T>(), t[P::x].as<const T>(),
                                   t[P::dy].as<const T>());
    };
  });
}
DUET_REGISTER(fake_quantise_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
