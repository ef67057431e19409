// SPDX-License-Identifier: Apache-2.0
// One thread per pack of channels of a pixel (nchw: per pixel). The usual windows are unrolled, so that all loads of a
// thread are in flight at once; where windows overlap, the second read hits L1. The backward pass gathers, with one
// thread per pack of dx; where windows do not overlap it has one per window, which reads its gradient once. Either way
// there are no atomics, and dx is written once.
#include "kernels/pool/pool2d.cuh"
#include "ops/pool/compose_training.h"

namespace duet::DUET_DEVICE {
namespace {

// ceil(packs / kMapBlock) blocks of kMapBlock, no shared memory. x: (images, h, w, depth), y, index: (images, ho, wo,
// depth); index may be null. kR, kS: the size of the window, 0 for any.
template <class T, int kSize, int kR, int kS>
__global__ void __launch_bounds__(kMapBlock)
    max_kernel(const T* x, T* y, int32_t* index, uint32_t packs, PoolPlace place, PoolExtents p) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, i, j, channel] = place.at<kSize>(pack);
  x += image * p.depth * p.h * p.w + channel;
  const int top = i * p.stride_h - p.pad_h, left = j * p.stride_w - p.pad_w;
  const int taps_h = kR ? kR : p.r, taps_w = kS ? kS : p.s;

  // Maximum of the window, and its place.
  float best[kSize];
  int best_at[kSize];
#pragma unroll
  for (int e = 0; e < kSize; ++e) {
    best[e] = -INFINITY;
    best_at[e] = -1;
  }
#pragma unroll kR ? kR : 1
  for (int u = 0; u < taps_h; ++u)
#pragma unroll kS ? kS : 1
    for (int v = 0; v < taps_w; ++v) {
      const int row = top + u * p.dil_h, column = left + v * p.dil_w, at = row * p.w + column;
      if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
      const auto values = load_pack<kSize>(x + at * p.depth);
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        if (best_at[e] < 0 || float(values.at[e]) > best[e]) {  // a window of -inf has a place as well
          best[e] = float(values.at[e]);
          best_at[e] = at;
        }
    }

  // Write back.
  Pack<T, kSize> out;
#pragma unroll
  for (int e = 0; e < kSize; ++e) out.at[e] = T(best[e]);
  store_pack(y + int64_t{pack} * kSize, out);
  if (index) store_places(index + int64_t{pack} * kSize, best_at);
}

Plan max_pool2d_tuned(const MaxPool2d& p, GpuContext& gpu) {
  if (p.x_elements() > kMaxPooled || p.y_elements() > kMaxPooled) return Unsupported{kTooManyPooled};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[MaxPool2d::x].as<const T>();
      T* y = t[MaxPool2d::y].as<T>();
      int32_t* index = p.indexed ? t[MaxPool2d::index].as<int32_t>() : nullptr;
      const auto run = [&]<int kSize>() {
        by_window(p, [&]<int kR, int kS>() {
          const int64_t packs = p.y_elements() / kSize;
          launch(max_kernel<T, kSize, kR, kS>, map_grid(packs, 1, stream), x, y, index, static_cast<uint32_t>(packs),
                 PoolPlace(p.ho(), p.wo(), p.depth() / kSize), PoolExtents(p));
        });
      };
      by_channels<T>(p, run, x, y, index);
    };
  });
}
DUET_REGISTER(max_pool2d_tuned);

// As max_kernel. index, dy: (images, ho, wo, depth), dx: (images, h, w, depth).
template <class T, int kSize, int kR, int kS>
__global__ void __launch_bounds__(kMapBlock)
    max_backward_kernel(const int32_t* index, const T* dy, T* dx, uint32_t packs, PoolPlace place, Divider by_stride_h,
                        Divider by_stride_w, PoolExtents p) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, row, column, channel] = place.at<kSize>(pack);
  const int64_t first = image * p.depth * p.ho * p.wo + channel;
  const int taps_h = kR ? kR : p.r, taps_w = kS ? kS : p.s, at = row * p.w + column;

  // Sum over the windows whose maximum is this pixel.
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
      const int64_t out = first + (int64_t{i} * p.wo + j) * p.depth;
      int places[kSize];
      load_places(index + out, places);
      const auto gradient = load_pack<kSize>(dy + out);
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        if (places[e] == at) sum[e] += float(gradient.at[e]);
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
    max_backward_tiles_kernel(const int32_t* index, const T* dy, T* dx, uint32_t packs, PoolPlace place, PoolExtents p,
                              bool pairs) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  const auto [image, i, j, channel] = place.at<kSize>(pack);
  int places[kSize];
  load_places(index + int64_t{pack} * kSize, places);
  const auto gradient = load_pack<kSize>(dy + int64_t{pack} * kSize);
  store_window<kSize>(dx + image * p.depth * p.h * p.w + channel, p, i, j, pairs, [&](int row, int column, int e) {
    return places[e] == row * p.w + column ? float(gradient.at[e]) : 0.0f;
  });
}

Plan max_pool2d_backward_tuned(const MaxPool2dBackward& p, GpuContext& gpu) {
  if (p.x_elements() > kMaxPooled || p.y_elements() > kMaxPooled) return Unsupported{kTooManyPooled};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const int32_t* index = t[MaxPool2dBackward::index].as<const int32_t>();
      const T* dy = t[MaxPool2dBackward::dy].as<const T>();
      T* dx = t[MaxPool2dBackward::dx].as<T>();
      const auto run = [&]<int kSize>() {
        if (windows_tile(p)) {
          const int64_t packs = p.y_elements() / kSize;
          launch(max_backward_tiles_kernel<T, kSize>, map_grid(packs, 1, stream), index, dy, dx,
                 static_cast<uint32_t>(packs), PoolPlace(p.ho(), p.wo(), p.depth() / kSize), PoolExtents(p),
                 stores_pairs(p, dx));
          return;
        }
        by_window(p, [&]<int kR, int kS>() {
          const int64_t packs = p.x_elements() / kSize;
          launch(max_backward_kernel<T, kSize, kR, kS>, map_grid(packs, 1, stream), index, dy, dx,
                 static_cast<uint32_t>(packs), PoolPlace(p.h, p.w, p.depth() / kSize), Divider(p.stride_h),
                 Divider(p.stride_w), PoolExtents(p));
        });
      };
      by_channels<T>(p, run, index, dy, dx);
    };
  });
}
DUET_REGISTER(max_pool2d_backward_tuned);

Plan max_pool2d_training_tuned(const MaxPool2dTraining& p, GpuContext& gpu) {
  return compose(p, max_pool2d_tuned(p.forward(), gpu), max_pool2d_backward_tuned(p.backward(), gpu));
}
DUET_REGISTER(max_pool2d_training_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
