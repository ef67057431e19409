// SPDX-License-Identifier: Apache-2.0
// Forward: one thread per element of y. Backward: one thread per element of dx, which visits every window that contains
// it.
#include "kernels/pool/pool2d.cuh"
#include "ops/pool/compose_training.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (images, h, w, depth), y, index: (images, ho, wo,
// depth); index may be null.
template <class T>
__global__ void max_kernel(const T* x, T* y, int32_t* index, int64_t elements, PoolExtents p) {
  const int64_t out = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (out >= elements) return;
  const int64_t channel = out % p.depth, pixel = out / p.depth;
  const int j = static_cast<int>(pixel % p.wo), i = static_cast<int>(pixel / p.wo % p.ho);
  x += pixel / p.wo / p.ho * p.h * p.w * p.depth + channel;

  // Maximum of the window, and its place.
  float best = -INFINITY;
  int best_at = -1;
  for (int u = 0; u < p.r; ++u)
    for (int v = 0; v < p.s; ++v) {
      const int row = i * p.stride_h - p.pad_h + u * p.dil_h, column = j * p.stride_w - p.pad_w + v * p.dil_w;
      if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
      const int at = row * p.w + column;
      const float value = float(x[at * p.depth]);
      if (best_at < 0 || value > best) {  // a window of -inf has a place as well
        best = value;
        best_at = at;
      }
    }
  y[out] = T(best);
  if (index) index[out] = best_at;
}

Plan max_pool2d_naive(const MaxPool2d& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.y_elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, extents = PoolExtents(p)](Args t) {
      launch(max_kernel<T>, grid, t[MaxPool2d::x].as<const T>(), t[MaxPool2d::y].as<T>(),
             p.indexed ? t[MaxPool2d::index].as<int32_t>() : nullptr, p.y_elements(), extents);
    };
  });
}
DUET_REGISTER(max_pool2d_naive);

// As max_kernel. index, dy: (images, ho, wo, depth), dx: (images, h, w, depth).
template <class T>
__global__ void max_backward_kernel(const int32_t* index, const T* dy, T* dx, int64_t elements, PoolExtents p) {
  const int64_t in = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (in >= elements) return;
  const int64_t channel = in % p.depth, pixel = in / p.depth;
  const int column = static_cast<int>(pixel % p.w), row = static_cast<int>(pixel / p.w % p.h);
  const int64_t first = pixel / p.w / p.h * p.ho * p.wo * p.depth + channel;

  float sum = 0;
  for (int u = p.r - 1; u >= 0; --u)
    for (int v = p.s - 1; v >= 0; --v) {
      const int down = row + p.pad_h - u * p.dil_h, across = column + p.pad_w - v * p.dil_w;
      if (down < 0 || down % p.stride_h != 0 || across < 0 || across % p.stride_w != 0) continue;
      const int i = down / p.stride_h, j = across / p.stride_w;
      if (i >= p.ho || j >= p.wo) continue;
      const int64_t out = first + (int64_t{i} * p.wo + j) * p.depth;
      if (index[out] == row * p.w + column) sum += float(dy[out]);
    }
  dx[in] = T(sum);
}

Plan max_pool2d_backward_naive(const MaxPool2dBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.x_elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, extents = PoolExtents(p)](Args t) {
      launch(max_backward_kernel<T>, grid, t[MaxPool2dBackward::index].as<const int32_t>(),
             t[MaxPool2dBackward::dy].as<const T>(), t[MaxPool2dBackward::dx].as<T>(), p.x_elements(), extents);
    };
  });
}
DUET_REGISTER(max_pool2d_backward_naive);

Plan max_pool2d_training_naive(const MaxPool2dTraining& p, GpuContext& gpu) {
  return compose(p, max_pool2d_naive(p.forward(), gpu), max_pool2d_backward_naive(p.backward(), gpu));
}
DUET_REGISTER(max_pool2d_training_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
