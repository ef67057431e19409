// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack per thread: all four numbers of a Philox block are used, and its mask is one store of 4 or 8 bytes.
#include "kernels/vector.cuh"
#include "ops/elementwise/dropout.h"

namespace duet::DUET_DEVICE {
namespace {
// Element `index & 3` of the block. Indexing the array would put it in local memory.
__device__ __forceinline__ uint32_t pick(const Philox4& block, uint64_t index) {
  const uint32_t low = index & 1 ? block.v[1] : block.v[0], high = index & 1 ? block.v[3] : block.v[2];
  return index & 2 ? high : low;
}

// A map_grid(n, kSize), no shared memory. x, y, mask: (n), offset: (1). y may be x.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock) dropout_kernel(const T* x, const int32_t* offset, T* y, uint8_t* mask,
                                                            int64_t n, uint64_t seed, uint64_t threshold, float scale) {
  const int32_t start = *offset;
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const auto in = load_pack<kWidth>(x + i);
    Pack<T, kWidth> out;
    Pack<uint8_t, kWidth> kept;
    uint64_t index = dropout_index(start, i);
    Philox4 block = philox4x32_10(index >> 2, seed);
#pragma unroll
    for (int e = 0; e < kWidth; ++e, ++index) {
      if (e > 0 && index % 4 == 0) block = philox4x32_10(index >> 2, seed);  // uniform over the threads with full packs
      const bool keep = pick(block, index) >= threshold;
      kept.at[e] = keep;
      out.at[e] = keep ? T(float(in.at[e]) * scale) : T(0.0f);
    }
    store_pack(y + i, out);
    store_pack(mask + i, kept);
  });
}

Plan dropout_tuned(const Dropout& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream(), threshold = dropout_threshold(p.p),
            scale = static_cast<float>(dropout_scale(p.p))](Args t) {
      const T* x = t[Dropout::x].as<const T>();
      const int32_t* offset = t[Dropout::offset].as<const int32_t>();
      T* y = t[Dropout::y].as<T>();
      uint8_t* mask = t[Dropout::mask].as<uint8_t>();
      const auto seed = static_cast<uint64_t>(p.seed);
      if (aligned16(x, y, mask))
        launch(dropout_kernel<T, kPack<T>>, map_grid(p.n, kPack<T>, stream), x, offset, y, mask, p.n, seed, threshold,
               scale);
      else
        launch(dropout_kernel<T, 1>, map_grid(p.n, 1, stream), x, offset, y, mask, p.n, seed, threshold, scale);
    };
  });
}
DUET_REGISTER(dropout_tuned);

struct ScaleKept {
  float scale;
  template <class T>
  __device__ T operator()(T dy, uint8_t mask) const {
    return mask ? T(float(dy) * scale) : T(0.0f);
  }
};

Plan dropout_backward_tuned(const DropoutBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream(), op = ScaleKept{static_cast<float>(dropout_scale(p.p))}](Args t) {
      launch_map(stream, op, p.n, t[DropoutBackward::dx].as<T>(), t[DropoutBackward::dy].as<const T>(),
                 t[DropoutBackward::mask].as<const uint8_t>());
    };
  });
}
DUET_REGISTER(dropout_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
