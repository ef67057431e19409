// SPDX-License-Identifier: Apache-2.0
// A thread has an output pixel in all channels, so that position, offsets and weights are computed once. A warp has 32
// pixels of a row: writes coalesce, and its reads lie on few lines, which neighbouring rows find in cache.
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/affine.h"

namespace duet::DUET_DEVICE {
namespace {
struct Images {
  int c, h, w;
  Divider by_h, by_w;
};

// A map_grid(pixels, 1), no shared memory. x, y: (n, c, h, w), theta: (n, 2, 3); pixels: n h w.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    affine_kernel(const T* x, const float* theta, T* y, Images p, int64_t pixels) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= pixels) return;
  auto image = static_cast<uint32_t>(at);
  const int j = p.by_w.split(image), i = p.by_h.split(image);
  const float* t = theta + int64_t{image} * 6;

  // The position in x.
  const auto width = static_cast<float>(p.w), height = static_cast<float>(p.h);
  const float u = static_cast<float>(2 * j + 1) / width - 1, v = static_cast<float>(2 * i + 1) / height - 1;
  const float column = fmaf(fmaf(t[0], u, fmaf(t[1], v, t[2])) + 1, width, -1) / 2;
  const float row = fmaf(fmaf(t[3], u, fmaf(t[4], v, t[5])) + 1, height, -1) / 2;
  const bool inside = row > -1 && row < height && column > -1 && column < width;  // not so where it is not a number

  // Offsets and weights of the four pixels.
  const int top = inside ? static_cast<int>(floorf(row)) : 0, left = inside ? static_cast<int>(floorf(column)) : 0;
  const float down = row - floorf(row), right = column - floorf(column);
  const bool has_top = inside && top >= 0, has_bottom = inside && top + 1 < p.h;
  const bool has_left = left >= 0, has_right = left + 1 < p.w;
  const int64_t plane = int64_t{p.h} * p.w, offset = int64_t{top} * p.w + left;

  // The channels.
  const T* from = x + int64_t{image} * p.c * plane;
  T* to = y + int64_t{image} * p.c * plane + int64_t{i} * p.w + j;
#pragma unroll 4
  for (int channel = 0; channel < p.c; ++channel) {
    const float x00 = has_top && has_left ? float(from[offset]) : 0;
    const float x01 = has_top && has_right ? float(from[offset + 1]) : 0;
    const float x10 = has_bottom && has_left ? float(from[offset + p.w]) : 0;
    const float x11 = has_bottom && has_right ? float(from[offset + p.w + 1]) : 0;
    const float upper = fmaf(right, x01, (1 - right) * x00), lower = fmaf(right, x11, (1 - right) * x10);
    *to = T(inside ? fmaf(down, lower, (1 - down) * upper) : 0);
    from += plane;
    to += plane;
  }
}

Plan affine_tuned(const Affine& p, GpuContext& gpu) {
  using P = Affine;
  const int64_t pixels = p.n * p.h * p.w;
  if (pixels > INT32_MAX || p.c > INT32_MAX) return Unsupported{"more than 2^31 - 1 pixels or channels"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, pixels, stream = gpu.stream()](Args t) {
      const Images images{static_cast<int>(p.c), static_cast<int>(p.h), static_cast<int>(p.w), Divider(p.h),
                          Divider(p.w)};
      launch(affine_kernel<T>, map_grid(pixels, 1, stream), t[P::x].as<const T>(), t[P::theta].as<const float>(),
             t[P::y].as<T>(), images, pixels);
    };
  });
}
DUET_REGISTER(affine_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
