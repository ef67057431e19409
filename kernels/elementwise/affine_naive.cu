// SPDX-License-Identifier: Apache-2.0
// One thread per element of y, in order; the formula of the contract as it stands.
#include "simt/launch.h"
#include "ops/elementwise/affine.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

template <class T>
__device__ float pixel(const T* plane, int64_t h, int64_t w, int64_t i, int64_t j) {
  return i >= 0 && i < h && j >= 0 && j < w ? float(plane[i * w + j]) : 0;
}

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x, y: (n, c, h, w) of `elements` elements, theta: (n,
// 2, 3).
template <class T>
__global__ void affine_kernel(const T* x, const float* theta, T* y, int64_t elements, int64_t c, int64_t h, int64_t w) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= elements) return;
  const int64_t j = at % w, i = at / w % h, plane = at / w / h;
  const float* t = theta + plane / c * 6;

  // The position in x.
  const float u = (2 * static_cast<float>(j) + 1) / static_cast<float>(w) - 1;
  const float v = (2 * static_cast<float>(i) + 1) / static_cast<float>(h) - 1;
  const float column = ((t[0] * u + t[1] * v + t[2] + 1) * static_cast<float>(w) - 1) / 2;
  const float row = ((t[3] * u + t[4] * v + t[5] + 1) * static_cast<float>(h) - 1) / 2;

  // Bilinear interpolation; what is not a number is outside.
  float value = 0;
  if (row > -1 && row < static_cast<float>(h) && column > -1 && column < static_cast<float>(w)) {
    const auto top = static_cast<int64_t>(floorf(row)), left = static_cast<int64_t>(floorf(column));
    const float down = row - floorf(row), right = column - floorf(column);
    const T* from = x + plane * h * w;
    const float upper = (1 - right) * pixel(from, h, w, top, left) + right * pixel(from, h, w, top, left + 1);
    const float lower = (1 - right) * pixel(from, h, w, top + 1, left) + right * pixel(from, h, w, top + 1, left + 1);
    value = (1 - down) * upper + down * lower;
  }
  y[at] = T(value);
}

Plan affine_naive(const Affine& p, GpuContext& gpu) {
  using P = Affine;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.n * p.c * p.h * p.w;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(affine_kernel<T>, grid, t[P::x].as<const T>(), t[P::theta].as<const float>(), t[P::y].as<T>(), elements,
             p.c, p.h, p.w);
    };
  });
}
DUET_REGISTER(affine_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
