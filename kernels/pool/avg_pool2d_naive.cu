// SPDX-License-Identifier: Apache-2.0
// Forward: one thread per element of y. Backward: one thread per element of dx, which visits every window that contains
// it.
#include "kernels/pool/pool2d.cuh"
#include "ops/pool/avg_pool2d.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// The number of taps start, start + dil, ... (`taps` of them) that lie in [0, size).
__device__ __forceinline__ int taps_inside(int start, int size, int taps, int dil) {
  int count = 0;
  for (int k = 0; k < taps; ++k) count += start + k * dil >= 0 && start + k * dil < size;
  return count;
}
// The number of elements that the mean of window (i, j) is taken over.
__device__ __forceinline__ float count_of(const PoolExtents& p, int i, int j, bool count_pad) {
  if (count_pad) return static_cast<float>(p.r) * static_cast<float>(p.s);
  const int count = taps_inside(i * p.stride_h - p.pad_h, p.h, p.r, p.dil_h) *
                    taps_inside(j * p.stride_w - p.pad_w, p.w, p.s, p.dil_w);
  return static_cast<float>(max(1, count));
}

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (images, h, w, depth), y: (images, ho, wo, depth).
template <class T>
__global__ void avg_kernel(const T* x, T* y, int64_t elements, PoolExtents p, bool count_pad) {
  const int64_t out = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (out >= elements) return;
  const int64_t channel = out % p.depth, pixel = out / p.depth;
  const int j = static_cast<int>(pixel % p.wo), i = static_cast<int>(pixel / p.wo % p.ho);
  x += pixel / p.wo / p.ho * p.h * p.w * p.depth + channel;

  float sum = 0;
  for (int u = 0; u < p.r; ++u)
    for (int v = 0; v < p.s; ++v) {
      const int row = i * p.stride_h - p.pad_h + u * p.dil_h, column = j * p.stride_w - p.pad_w + v * p.dil_w;
      if (row >= 0 && row < p.h && column >= 0 && column < p.w) sum += float(x[(row * p.w + column) * p.depth]);
    }
  y[out] = T(sum / count_of(p, i, j, count_pad));
}

Plan avg_pool2d_naive(const AvgPool2d& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.y_elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, extents = PoolExtents(p)](Args t) {
      launch(avg_kernel<T>, grid, t[AvgPool2d::x].as<const T>(), t[AvgPool2d::y].as<T>(), p.y_elements(), extents,
             p.count_pad);
    };
  });
}
DUET_REGISTER(avg_pool2d_naive);

// As avg_kernel. dy: (images, ho, wo, depth), dx: (images, h, w, depth).
template <class T>
__global__ void avg_backward_kernel(const T* dy, T* dx, int64_t elements, PoolExtents p, bool count_pad) {
  const int64_t in = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (in >= elements) return;
  const int64_t channel = in % p.depth, pixel = in / p.depth;
  const int column = static_cast<int>(pixel % p.w), row = static_cast<int>(pixel / p.w % p.h);
  dy += pixel / p.w / p.h * p.ho * p.wo * p.depth + channel;

  float sum = 0;
  for (int u = p.r - 1; u >= 0; --u)
    for (int v = p.s - 1; v >= 0; --v) {
      const int down = row + p.pad_h - u * p.dil_h, across = column + p.pad_w - v * p.dil_w;
      if (down < 0 || down % p.stride_h != 0 || across < 0 || across % p.stride_w != 0) continue;
      const int i = down / p.stride_h, j = across / p.stride_w;
      if (i < p.ho && j < p.wo) sum += float(dy[(int64_t{i} * p.wo + j) * p.depth]) / count_of(p, i, j, count_pad);
    }
  dx[in] = T(sum);
}

Plan avg_pool2d_backward_naive(const AvgPool2dBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.x_elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, extents = PoolExtents(p)](Args t) {
      launch(avg_backward_kernel<T>, grid, t[AvgPool2dBackward::dy].as<const T>(), t[AvgPool2dBackward::dx].as<T>(),
             p.x_elements(), extents, p.count_pad);
    };
  });
}
DUET_REGISTER(avg_pool2d_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
