// SPDX-License-Identifier: Apache-2.0
// One thread per element of y, in order. Writes coalesce; a warp reads every c-th byte of a row.
#include "simt/launch.h"
#include "ops/elementwise/augment.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. Shapes as in the contract; y has `elements` elements.
template <class T>
__global__ void augment_kernel(const uint8_t* x, const int32_t* top, const int32_t* left, const int32_t* flip,
                               const float* mean, const float* deviation, T* y, int64_t elements, int64_t c, int64_t h,
                               int64_t w, int64_t ho, int64_t wo) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= elements) return;
  const int64_t j = at % wo, i = at / wo % ho, channel = at / wo / ho % c, image = at / wo / ho / c;
  const int64_t row = top[image] + i, column = left[image] + (flip[image] ? wo - 1 - j : j);
  const bool inside = row >= 0 && row < h && column >= 0 && column < w;
  const float value = inside ? static_cast<float>(x[((image * h + row) * w + column) * c + channel]) / 255 : 0;
  y[at] = T((value - mean[channel]) / deviation[channel]);
}

Plan augment_naive(const Augment& p, GpuContext& gpu) {
  using P = Augment;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.n * p.c * p.ho * p.wo;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(augment_kernel<T>, grid, t[P::x].as<const uint8_t>(), t[P::top].as<const int32_t>(),
             t[P::left].as<const int32_t>(), t[P::flip].as<const int32_t>(), t[P::mean].as<const float>(),
             t[P::deviation].as<const float>(), t[P::y].as<T>(), elements, p.c, p.h, p.w, p.ho, p.wo);
    };
  });
}
DUET_REGISTER(augment_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
