// SPDX-License-Identifier: Apache-2.0
// One thread per element of y: the formula as written. The lanes of a warp have 32 neighbours in a row of y: they read
// the same element of x, and elements of w that are `in` bytes apart, which do not coalesce.
// nvcc makes dp4a of four products.
#include "simt/launch.h"
#include "ops/gemm/linear_int8.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n out / kThreads) blocks of kThreads, no shared memory. x: (n, in), w: (out, in), y: (n, out).
template <class T>
__global__ void linear_int8_kernel(const int8_t* x, const int8_t* w, const float* scale_x, const float* scale_w,
                                   const T* bias, T* y, int64_t elements, int64_t in, int64_t out) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const int64_t o = index % out;
  x += index / out * in;
  w += o * in;
  int sum = 0;
  for (int64_t p = 0; p < in; ++p) sum += int{x[p]} * int{w[p]};
  y[index] = T(float(sum) * *scale_x * scale_w[o] + float(bias[o]));
}

Plan linear_int8_naive(const LinearInt8& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.n * p.out;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      using P = LinearInt8;
      launch(linear_int8_kernel<T>, grid, t[P::x].as<const int8_t>(), t[P::w].as<const int8_t>(),
             t[P::scale_x].as<const float>(), t[P::scale_w].as<const float>(), t[P::bias].as<const T>(),
             t[P::y].as<T>(), elements, p.in, p.out);
    };
  });
}
DUET_REGISTER(linear_int8_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
