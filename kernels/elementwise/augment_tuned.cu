// SPDX-License-Identifier: Apache-2.0
// A thread has a few neighbouring pixels of a crop in all channels: 16 bytes of each plane of y where rows are whole
// packs, else one element. So each byte of x is fetched into L1 once, and writes coalesce in every plane.
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/augment.h"

namespace duet::DUET_DEVICE {
namespace {
struct Crops {
  int64_t c, h, w, ho, wo;
  Divider by_packs, by_ho;  // by_packs: packs of a row of y
};

// A map_grid(n ho wo, kSize), no shared memory. Shapes as in the contract; packs: of one channel of y.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    augment_kernel(const uint8_t* x, const int32_t* top, const int32_t* left, const int32_t* flip, const float* mean,
                   const float* deviation, T* y, Crops p, int64_t packs) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= packs) return;
  auto image = static_cast<uint32_t>(at);
  const int64_t j = int64_t{p.by_packs.split(image)} * kSize;
  const int64_t i = p.by_ho.split(image);

  // The pixels of x: `step` apart, from the first one on.
  const int64_t row = top[image] + i;
  const bool mirrored = flip[image] != 0;
  const int64_t column = left[image] + (mirrored ? p.wo - 1 - j : j), step = mirrored ? -1 : 1;
  const uint8_t* line = x + (image * p.h + row) * p.w * p.c;

  // Channel by channel.
  for (int64_t channel = 0; channel < p.c; ++channel) {
    const float scale = 1 / (255 * deviation[channel]), shift = -mean[channel] / deviation[channel];
    Pack<T, kSize> pack;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const int64_t at_x = column + e * step;
      const bool inside = row >= 0 && row < p.h && at_x >= 0 && at_x < p.w;
      pack.at[e] = T(fmaf(inside ? static_cast<float>(line[at_x * p.c + channel]) : 0, scale, shift));
    }
    store_pack(y + ((image * p.c + channel) * p.ho + i) * p.wo + j, pack);
  }
}

Plan augment_tuned(const Augment& p, GpuContext& gpu) {
  using P = Augment;
  const int64_t pixels = p.n * p.ho * p.wo;
  if (pixels > INT32_MAX) return Unsupported{"more than 2^31 - 1 pixels"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, pixels, stream = gpu.stream()](Args t) {
      if (pixels == 0) return;
      T* y = t[P::y].as<T>();
      const auto run = [&]<int kSize>() {
        const Crops crops{p.c, p.h, p.w, p.ho, p.wo, Divider(p.wo / kSize), Divider(p.ho)};
        launch(augment_kernel<T, kSize>, map_grid(pixels, kSize, stream), t[P::x].as<const uint8_t>(),
               t[P::top].as<const int32_t>(), t[P::left].as<const int32_t>(), t[P::flip].as<const int32_t>(),
               t[P::mean].as<const float>(), t[P::deviation].as<const float>(), y, crops, pixels / kSize);
      };
      p.wo % kPack<T> == 0 && aligned16(y) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(augment_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
