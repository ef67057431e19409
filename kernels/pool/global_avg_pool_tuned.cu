// SPDX-License-Identifier: Apache-2.0
// nchw: a warp per plane, its lanes side by side along the pixels. nhwc: blocks of 32 packs of channels by 8 pixels,
// which meet in shared memory. Backward: a thread per pack of dx.
#include "kernels/pool/pool2d.cuh"
#include "ops/pool/global_avg_pool.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;  // threads of a block
constexpr int64_t kAddsInARow = 1024;  // of one thread; ops/summation.h allows twice as many

// Blocks of (32, 8), a warp for each of 8 planes, no shared memory. x: (planes, pixels), y: (planes).
template <class T>
__global__ void __launch_bounds__(kLanes* kRows)
    planes_kernel(const T* x, T* y, int64_t planes, int64_t pixels, float share) {
  const int64_t plane = int64_t{blockIdx.x} * kRows + threadIdx.y;
  if (plane >= planes) return;  // a whole warp, and no barrier follows
  float sum = 0;
  for_row<kLanes, kPack<T>>(x + plane * pixels, pixels, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum += float(pack.at[e]);
  });
  sum = warp_reduce<SumOp>(sum);
  if (threadIdx.x == 0) y[plane] = T(sum * share);
}

// Blocks of (32, 8): grid x strips of 32 * kSize channels, grid y images. A thread adds every 8th pixel. 1 to 8 KiB of
// shared memory. x: (images, pixels, depth), y: (images, depth).
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    channels_kernel(const T* x, T* y, int64_t pixels, int64_t depth, float share) {
  DUET_SHARED(float, shared, [kRows][kLanes * kSize]);
  const int64_t c = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize;
  const int lane = static_cast<int>(threadIdx.x) * kSize, row = static_cast<int>(threadIdx.y);
  float sum[kSize] = {};
  if (c < depth) {
    x += int64_t{blockIdx.y} * pixels * depth + c;
#pragma unroll 4
    for (int64_t k = row; k < pixels; k += kRows) {
      const auto pack = load_pack<kSize>(x + k * depth);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += float(pack.at[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kSize; ++e) shared[row][lane + e] = sum[e];
  __syncthreads();
  for (int i = row * kLanes + static_cast<int>(threadIdx.x); i < kLanes * kSize; i += kLanes * kRows) {
    const int64_t channel = int64_t{blockIdx.x} * kLanes * kSize + i;
    float total = 0;
#pragma unroll
    for (int k = 0; k < kRows; ++k) total += shared[k][i];
    if (channel < depth) y[int64_t{blockIdx.y} * depth + channel] = T(total * share);
  }
}

Plan global_avg_pool_tuned(const GlobalAvgPool& p, GpuContext& gpu) {
  if (p.pixels() > kAddsInARow * (p.depth() == 1 ? kLanes : kRows))
    return Unsupported{"planes of more than 2^15 pixels, nhwc 2^13"};
  if (p.depth() > 1 && p.images() > 65535) return Unsupported{"nhwc: more than 65535 images"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[GlobalAvgPool::x].as<const T>();
      T* y = t[GlobalAvgPool::y].as<T>();
      const float share = 1 / static_cast<float>(std::max<int64_t>(1, p.pixels()));
      const auto grid = [&](int64_t across, int64_t down) {
        return Grid{.blocks = {across, down}, .threads = {kLanes, kRows}, .stream = stream};
      };
      if (p.depth() == 1)
        launch(planes_kernel<T>, grid(ceil_div(p.images(), kRows), 1), x, y, p.images(), p.pixels(), share);
      else if (p.depth() % kPack<T> == 0 && aligned16(x))
        launch(channels_kernel<T, kPack<T>>, grid(ceil_div(p.depth(), kLanes * kPack<T>), p.images()), x, y, p.pixels(),
               p.depth(), share);
      else
        launch(channels_kernel<T, 1>, grid(ceil_div(p.depth(), kLanes), p.images()), x, y, p.pixels(), p.depth(),
               share);
    };
  });
}
DUET_REGISTER(global_avg_pool_tuned);

// A map_grid(elements, kSize), no shared memory. dy: (images, depth), dx: (images, pixels, depth). kSize > 1: depth is
// a multiple of it, or 1, when a pack may span planes.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock) spread_kernel(const T* dy, T* dx, uint32_t elements, Divider by_depth,
                                                           Divider by_pixels, uint32_t depth, float share) {
  for_my_pack<kSize>(elements, [&]<int kWidth>(int64_t i) {
    Pack<T, kWidth> out;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      uint32_t pixel = static_cast<uint32_t>(i) + e;
      const int channel = by_depth.split(pixel);
      out.at[e] = T(float(dy[by_pixels(pixel) * depth + channel]) * share);
    }
    store_pack(dx + i, out);
  });
}

Plan global_avg_pool_backward_tuned(const GlobalAvgPoolBackward& p, GpuContext& gpu) {
  const int64_t elements = p.n * p.c * p.h * p.w;
  if (elements > kMaxPooled) return Unsupported{kTooManyPooled};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, elements, stream = gpu.stream()](Args t) {
      const int64_t depth = p.forward().depth(), pixels = p.h * p.w;
      const T* dy = t[GlobalAvgPoolBackward::dy].as<const T>();
      T* dx = t[GlobalAvgPoolBackward::dx].as<T>();
      const float share = 1 / static_cast<float>(std::max<int64_t>(1, pixels));
      const auto run = [&]<int kSize>() {
        launch(spread_kernel<T, kSize>, map_grid(elements, kSize, stream), dy, dx, static_cast<uint32_t>(elements),
               Divider(depth), Divider(pixels), static_cast<uint32_t>(depth), share);
      };
      aligned16(dx) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(global_avg_pool_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
