// SPDX-License-Identifier: Apache-2.0
// One thread per element of col, in order. A thread finds its tap and its pixel by divisions.
#include "simt/launch.h"
#include "ops/conv/im2col.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (n, c, h, w), col: (n, c r s, ho wo).
template <class T>
__global__ void im2col_kernel(const T* x, T* col, Im2col p, int64_t elements, int64_t ho, int64_t wo) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= elements) return;
  const int64_t j = at % wo, i = at / wo % ho, of_col = at / wo / ho;
  const int64_t v = of_col % p.s, u = of_col / p.s % p.r, plane = of_col / p.s / p.r;
  const int64_t row = i * p.stride_h - p.pad_h + u * p.dil_h, column = j * p.stride_w - p.pad_w + v * p.dil_w;
  const bool inside = row >= 0 && row < p.h && column >= 0 && column < p.w;
  col[at] = inside ? x[(plane * p.h + row) * p.w + column] : T(0.0f);
}

Plan im2col_naive(const Im2col& p, GpuContext& gpu) {
  using P = Im2col;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.rows() * p.ho() * p.wo();
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(im2col_kernel<T>, grid, t[P::x].as<const T>(), t[P::col].as<T>(), p, elements, p.ho(), p.wo());
    };
  });
}
DUET_REGISTER(im2col_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
