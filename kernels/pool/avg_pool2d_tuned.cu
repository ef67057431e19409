// SPDX-License-Identifier: Apache-2.0
// One thread per pack of channels of a pixel, as in max_pool2d_tuned.cu, with sums instead of maxima.
#include "kernels/pool/pool2d.cuh"
#include "ops/pool/avg_pool2d.h"

namespace duet::DUET_DEVICE {
namespace {

// The number of taps start, start + dil, ... (`taps` of them) that lie in [0, size).
__device__ __forceinline__ int taps_inside(int start, int size, int taps, int dil) {
  int count = 0;
  for (int k = 0; k < taps; ++k) count += start + k * dil >= 0 && start + k * dil < size;
  return count;
}

// 1 / the number of elements that a window's mean is taken over. Most windows lie inside x, where no counting is
// needed.
__device__ __forceinline__ float inv_count_of(const PoolExtents& p, int top, int left, int taps_h, int taps_w,
                                              bool count_pad) {
  float count = static_cast<float>(taps_h) * static_cast<float>(taps_w);
  const bool inside =
      top >= 0 && left >= 0 && top + (taps_h - 1) * p.dil_h < p.h && left + (taps_w - 1) * p.dil_w < p.w;
  if (!count_pad && !inside)
    count =
        static_cast<float>(max(1, taps_inside(top, p.h, taps_h, p.dil_h) * taps_inside(left, p.w, taps_w, p.dil_w)));
  return 1 / count;
}

// ceil(packs / kMapBlock) blocks of kMapBlock, no shared memory. x: (images, h, w, depth), y: (images, ho, wo, depth).
// kR, kS: the size of the window, 0 for any.
template <class T, int kSize, int kR, int kS>
__global__ void __launch_bounds__(kMapBlock)
    avg_kernel(const T* x, T* y, uint32_t packs, PoolPlace place, PoolExtents p, bool count_pad) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, i, j, channel] = place.at<kSize>(pack);
  x += image * p.depth * p.h * p.w + channel;
  const int top = i * p.stride_h - p.pad_h, left = j * p.stride_w - p.pad_w;
  const int taps_h = kR ? kR : p.r, taps_w = kS ? kS : p.s;

  // Sum of the window.
  float sum[kSize] = {};
#pragma unroll kR ? kR : 1
  for (int u = 0; u < taps_h; ++u)
#pragma unroll kS ? kS : 1
    for (int v = 0; v < taps_w; ++v) {
      const int row = top + u * p.dil_h, column = left + v * p.dil_w;
      if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
      const auto values = load_pack<kSize>(x + (row * p.w + column) * p.depth);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += float(values.at[e]);
    }

  // Write back.
  const float inv_count = inv_count_of(p, top, left, taps_h, taps_w, count_pad);
  Pack<T, kSize> out;
#pragma unroll
  for (int e = 0; e < kSize; ++e) out.at[e] = T(sum[e] * inv_count);
  store_pack(y + int64_t{pack} * kSize, out);
}

Plan avg_pool2d_tuned(const AvgPool2d& p, GpuContext& gpu) {
  if (p.x_elements() > kMaxPooled || p.y_elements() > kMaxPooled) return Unsupported{kTooManyPooled};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[AvgPool2d::x].as<const T>();
      T* y = t[AvgPool2d::y].as<T>();
      const auto run = [&]<int kSize>() {
        by_window(p, [&]<int kR, int kS>() {
          const int64_t packs = p.y_elements() / kSize;
          launch(avg_kernel<T, kSize, kR, kS>, map_grid(packs, 1, stream), x, y, static_cast<uint32_t>(packs),
                 PoolPlace(p.ho(), p.wo(), p.depth() / kSize), PoolExtents(p), p.count_pad);
        });
      };
      by_channels<T>(p, run, x, y);
    };
  });
}
DUET_REGISTER(avg_pool2d_tuned);

// As avg_kernel. dy: (images, ho, wo, depth), dx: (images, h, w, depth).
template <class T, int kSize, int kR, int kS>
__global__ void __launch_bounds__(kMapBlock)
    avg_backward_kernel(const T* dy, T* dx, uint32_t packs, PoolPlace place, Divider by_stride_h, Divider by_stride_w,
                        PoolExtents p, bool count_pad) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, row, column, channel] = place.at<kSize>(pack);
  dy += image * p.depth * p.ho * p.wo + channel;
  const int taps_h = kR ? kR : p.r, taps_w = kS ? kS : p.s;

  // Sum over the windows that contain the pixel.
  float sum[kSize] = {};
#pragma unroll kR ? kR : 1
  for (int u = taps_h - 1; u >= 0; --u) {
    const int down = row + p.pad_h - u * p.dil_h;
    uint32_t i = down < 0 ? 0 : down;
    if (down < 0 || by_stride_h.split(i) != 0 || static_cast<int>(i) >= p.ho) continue;
#pragma unroll kS ? kS : 1
    for (int v = taps_w - 1; v >= 0; --v) {
      const int across = column + p.pad_w - v * p.dil_w;
      uint32_t j = across < 0 ? 0 : across;
      if (across < 0 || by_stride_w.split(j) != 0 || static_cast<int>(j) >= p.wo) continue;
      const float inv_count = inv_count_of(p, row - u * p.dil_h, column - v * p.dil_w, taps_h, taps_w, count_pad);
      const auto gradient = load_pack<kSize>(dy + (int64_t{i} * p.wo + j) * p.depth);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += float(gradient.at[e]) * inv_count;
    }
  }

  // Write back.
  Pack<T, kSize> out;
#pragma unroll
  for (int e = 0; e < kSize; ++e) out.at[e] = T(sum[e]);
  store_pack(dx + int64_t{pack} * kSize, out);
}

// The same where windows_tile(): one thread per pack of dy. pairs: see stores_pairs().
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    avg_backward_tiles_kernel(const T* dy, T* dx, uint32_t packs, PoolPlace place, PoolExtents p, bool pairs) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, i, j, channel] = place.at<kSize>(pack);
  const auto gradient = load_pack<kSize>(dy + int64_t{pack} * kSize);
  const float inv_count = 1 / (static_cast<float>(p.r) * static_cast<float>(p.s));
  store_window<kSize>(dx + image * p.depth * p.h * p.w + channel, p, i, j, pairs,
                      [&](int, int, int e) { return float(gradient.at[e]) * inv_count; });
}

Plan avg_pool2d_backward_tuned(const AvgPool2dBackward& p, GpuContext& gpu) {
  if (p.x_elements() > kMaxPooled || p.y_elements() > kMaxPooled) return Unsupported{kTooManyPooled};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* dy = t[AvgPool2dBackward::dy].as<const T>();
      T* dx = t[AvgPool2dBackward::dx].as<T>();
      const auto run = [&]<int kSize>() {
        if (windows_tile(p)) {
          const int64_t packs = p.y_elements() / kSize;
          launch(avg_backward_tiles_kernel<T, kSize>, map_grid(packs, 1, stream), dy, dx, static_cast<uint32_t>(packs),
                 PoolPlace(p.ho(), p.wo(), p.depth() / kSize), PoolExtents(p), stores_pairs(p, dx));
          return;
        }
        by_window(p, [&]<int kR, int kS>() {
          const int64_t packs = p.x_elements() / kSize;
          launch(avg_backward_kernel<T, kSize, kR, kS>, map_grid(packs, 1, stream), dy, dx,
                 static_cast<uint32_t>(packs), PoolPlace(p.h, p.w, p.depth() / kSize), Divider(p.stride_h),
                 Divider(p.stride_w), PoolExtents(p), p.count_pad);
        });
      };
      by_channels<T>(p, run, dy, dx);
    };
  });
}
DUET_REGISTER(avg_pool2d_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
