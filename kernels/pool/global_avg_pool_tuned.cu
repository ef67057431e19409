// SPDX-License-Identifier: Apache-2.0
// nchw: one warp per plane, whose lanes read neighbouring pixels; of small planes, a quarter of a warp. nhwc: column
// sums (columns.cuh), in which the pixels of an image are the rows of a part. Backward: one thread per pack of dx.
#include "kernels/pool/pool2d.cuh"
#include "kernels/reduction/columns.cuh"
#include "ops/pool/global_avg_pool.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;    // threads of a block
constexpr int64_t kMaxAdditions = 1024;  // of one thread; ops/summation.h allows twice as many

// Blocks of 256 threads, kThreads in a row for each plane, no shared memory. x: (planes, pixels), y: (planes).
template <class T, int kThreads>
__global__ void __launch_bounds__(kLanes* kRows)
    planes_kernel(const T* x, T* y, int64_t planes, int64_t pixels, float inv_pixels) {
  const int64_t plane = int64_t{blockIdx.x} * (kLanes * kRows / kThreads) + threadIdx.y;
  const bool exists = plane < planes;  // lanes of other planes of the warp may exist
  float sum = 0;
  if (exists)
    for_row<kThreads, kPack<T>>(x + plane * pixels, pixels, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sum += float(pack.at[e]);
    });
#pragma unroll
  for (int distance = kThreads / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (exists && threadIdx.x == 0) y[plane] = T(sum * inv_pixels);
}
constexpr int64_t kSmallPlane = 256;  // pixels

// nhwc: the mean of a channel in an image, as a Store of columns.cuh: a part is an image. y: (images, depth).
template <class T>
struct StoreMean {
  T* y;
  int64_t depth;
  float inv_pixels;
  __device__ __forceinline__ void operator()(int64_t image, int64_t channel, const float (&sums)[1]) const {
    y[image * depth + channel] = T(sums[0] * inv_pixels);
  }
};

Plan global_avg_pool_tuned(const GlobalAvgPool& p, GpuContext& gpu) {
  if (p.pixels() > kMaxAdditions * (p.depth() == 1 ? kLanes : kRows))
    return Unsupported{"planes of more than 2^15 pixels, nhwc 2^13"};
  if (p.depth() > 1 && p.images() > 65535) return Unsupported{"nhwc: more than 65535 images"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[GlobalAvgPool::x].as<const T>();
      T* y = t[GlobalAvgPool::y].as<T>();
      const float inv_pixels = 1 / static_cast<float>(std::max<int64_t>(1, p.pixels()));
      const auto planes = [&]<int kThreads>() {
        constexpr int kPlanes = kLanes * kRows / kThreads;
        launch(planes_kernel<T, kThreads>,
               Grid{.blocks = ceil_div(p.images(), kPlanes), .threads = {kThreads, kPlanes}, .stream = stream}, x, y,
               p.images(), p.pixels(), inv_pixels);
      };
      if (p.depth() == 1)
        p.pixels() <= kSmallPlane ? planes.template operator()<8>() : planes.template operator()<kLanes>();
      else
        launch_columns(stream, LoadColumns<T>{x, p.depth()}, StoreMean<T>{y, p.depth(), inv_pixels},
                       p.images() * p.pixels(), p.depth(), p.images(), p.pixels());
    };
  });
}
DUET_REGISTER(global_avg_pool_tuned);

// A map_grid(elements, kSize), no shared memory. dy: (images, depth), dx: (images, pixels, depth). A pack may span
// channels, pixels and planes.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock) spread_kernel(const T* dy, T* dx, uint32_t elements, Divider by_depth,
                                                           Divider by_pixels, uint32_t depth, float inv_pixels) {
  for_my_pack<kSize>(elements, [&]<int kWidth>(int64_t i) {
    Pack<T, kWidth> out;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      uint32_t pixel = static_cast<uint32_t>(i) + e;
      const int channel = by_depth.split(pixel);
      out.at[e] = T(float(dy[by_pixels(pixel) * depth + channel]) * inv_pixels);
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
      const float inv_pixels = 1 / static_cast<float>(std::max<int64_t>(1, pixels));
      const auto run = [&]<int kSize>() {
        launch(spread_kernel<T, kSize>, map_grid(elements, kSize, stream), dy, dx, static_cast<uint32_t>(elements),
               Divider(depth), Divider(pixels), static_cast<uint32_t>(depth), inv_pixels);
      };
      aligned16(dx) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(global_avg_pool_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
