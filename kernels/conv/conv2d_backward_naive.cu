// SPDX-License-Identifier: Apache-2.0
// One thread per element of a gradient: the formulas as written. Neighbouring threads have neighbours in its memory.
#include "kernels/conv/geometry.cuh"
#include "ops/conv/conv2d_backward.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(elements / kThreads) blocks of kThreads, no shared memory. Tensors have the contract's layout.
template <class T>
__global__ void conv2d_backward_filter_kernel(const T* x, const T* dy, T* dw, int64_t elements, Geometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t k = index / g.depth;
  const auto tap = g.tap(index % g.depth);
  float sum = 0;
  for (int64_t p = 0; p < g.pixels; ++p) {
    const int64_t at = g.element(g.pixel(p, k / g.group_k), tap);
    if (at >= 0) sum += float(dy[g.result(p, k)]) * float(x[at]);
  }
  dw[index] = T(sum);
}

template <class T>
__global__ void conv2d_backward_data_kernel(const T* filter, const T* dy, T* dx, int64_t elements, Geometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  int64_t n, c, row, col;
  if (g.channels_last) {
    c = index % g.c;
    col = index / g.c % g.w;
    row = index / g.c / g.w % g.h;
    n = index / g.c / g.w / g.h;
  } else {
    col = index % g.w;
    row = index / g.w % g.h;
    c = index / g.w / g.h % g.c;
    n = index / g.w / g.h / g.c;
  }
  const int64_t first_k = c / g.group_c * g.group_k, q = c % g.group_c;

  float sum = 0;
  for (int64_t k = first_k; k < first_k + g.group_k; ++k)
    for (int64_t r = 0; r < g.r; ++r)
      for (int64_t s = 0; s < g.s; ++s) {
        const int64_t down = row + g.pad_h - r * g.dil_h, across = col + g.pad_w - s * g.dil_w;
        if (down < 0 || across < 0 || down % g.stride_h != 0 || across % g.stride_w != 0) continue;
        const int64_t i = down / g.stride_h, j = across / g.stride_w;
        if (i >= g.ho || j >= g.wo) continue;
        const int64_t at_w =
            g.channels_last ? ((k * g.r + r) * g.s + s) * g.group_c + q : ((k * g.group_c + q) * g.r + r) * g.s + s;
        sum += float(dy[g.result((n * g.ho + i) * g.wo + j, k)]) * float(filter[at_w]);
      }
  dx[index] = T(sum);
}

Grid one_thread_each(int64_t elements, GpuContext& gpu) {
  return {.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
}

Plan conv2d_backward_filter_naive(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.k * p.group_c() * p.r * p.s;
    return [g = geometry(p), elements, grid = one_thread_each(elements, gpu)](Args t) {
      launch(conv2d_backward_filter_kernel<T>, grid, t[P::x].as<const T>(), t[P::dy].as<const T>(), t[P::dw].as<T>(),
             elements, g);
    };
  });
}
DUET_REGISTER(conv2d_backward_filter_naive);

Plan conv2d_backward_data_naive(const Conv2dBackwardData& problem, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.n * p.c * p.h * p.w;
    return [g = geometry(p), elements, grid = one_thread_each(elements, gpu)](Args t) {
      launch(conv2d_backward_data_kernel<T>, grid, t[P::filter].as<const T>(), t[P::dy].as<const T>(), t[P::dx].as<T>(),
             elements, g);
    };
  });
}
DUET_REGISTER(conv2d_backward_data_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
