// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack per thread: all numbers of its Philox blocks are used, and its mask is one store of 4 or 8 bytes.
// With an offset that is no multiple of four, a pack begins inside a block, and needs one block more.
#include "kernels/vector.cuh"
#include "ops/elementwise/dropout.h"

namespace duet::DUET_DEVICE {
namespace {
// kWidth random words from element `index` on: 1, or a multiple of 4. All threads of a warp that have whole packs have
// the same index % 4. Words are moved by selections: an index that is not constant would put them in local memory.
template <int kWidth>
struct RandomWords {
  uint32_t v[kWidth + 4];
  __device__ __forceinline__ RandomWords(uint64_t index, uint64_t seed) {
    constexpr int kBlocks = (kWidth + 3) / 4;
    const uint64_t first = index >> 2;
    const bool one = index & 1, two = index & 2;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) add(b, first, seed);
    if (!one && !two) return;
    if (kWidth > 1) add(kBlocks, first, seed);
#pragma unroll
    for (int k = 0; k < kWidth + 2; ++k) v[k] = one ? v[k + 1] : v[k];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = two ? v[k + 2] : v[k];
  }
  __device__ __forceinline__ void add(int block, uint64_t first, uint64_t seed) {
    const Philox4 words = philox4x32_10(first + block, seed);
#pragma unroll
    for (int k = 0; k < 4; ++k) v[4 * block + k] = words.v[k];
  }
};

// A map_grid(n, kSize), no shared memory. x, y, mask: (n), offset: (1). y may be x.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock, 5)
    dropout_kernel(const T* x, const int32_t* offset, T* y, uint8_t* mask, int64_t n, uint64_t seed, uint64_t threshold,
                   float scale) {
  const int32_t start = *offset;
  // threshold is 0 to 2^32. Words that are kept are all, or those above `last`, compared in 32 bits.
  const bool all = threshold == 0;
  const auto last = static_cast<uint32_t>(threshold - 1);
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const auto in = load_pack<kWidth>(x + i);
    const RandomWords<kWidth> random(dropout_index(start, i), seed);
    Pack<T, kWidth> out;
    Pack<uint8_t, kWidth> kept;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const bool keep = all || random.v[e] > last;
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
