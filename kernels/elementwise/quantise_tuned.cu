// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack of x per thread, by launch_channel_map (channels.cuh); its levels are 4 or 8 bytes.
#include "kernels/elementwise/channels.cuh"
#include "ops/elementwise/quantise.h"

namespace duet::DUET_DEVICE {
namespace {
struct LevelOf {
  int lo, hi;
  template <class T>
  __device__ int8_t operator()(float scale, int zero, T x) const {
    const int z = clamp_level(zero, lo, hi);
    return static_cast<int8_t>(clamp_level(unclamped_level(float(x), scale, z), lo, hi));
  }
};

Plan quantise_tuned(const Quantise& p, GpuContext& gpu) {
  using P = Quantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const LevelOf op{static_cast<int>(p.lo), static_cast<int>(p.hi)};
      launch_channel_map<kPack<T>>(stream, op, p.outer, p.c, p.inner, t[P::scale].as<const float>(),
                                   t[P::zero].as<const int32_t>(), t[P::q].as<int8_t>(), t[P::x].as<const T>());
    };
  });
}
DUET_REGISTER(quantise_tuned);

template <class T>
struct ValueOf {
  __device__ T operator()(float scale, int zero, int8_t q) const {
    return T(static_cast<float>(int{q} - clamp_level(zero, -128, 127)) * scale);
  }
};

Plan dequantise_tuned(const Dequantise& p, GpuContext& gpu) {
  using P = Dequantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_channel_map<kPack<T>>(stream, ValueOf<T>{}, p.outer, p.c, p.inner, t[P::scale].as<const float>(),
                                   t[P::zero].as<const int32_t>(), t[P::x].as<T>(), t[P::q].as<const int8_t>());
    };
  });
}
DUET_REGISTER(dequantise_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
