// SPDX-License-Identifier: Apache-2.0
// One thread per element of dh, then one per column: the formula as written.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/gemm/gelu_linear.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(elements of the result / kThreads) blocks of kThreads, no shared memory. dy: (n, out), w: (out,
// in), h, dh: (n, in), dbias: (in).
template <class T>
__global__ void gelu_linear_dh_kernel(const T* dy, const T* w, const T* h, T* dh, int64_t n, int64_t in, int64_t out) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= n * in) return;
  const int64_t i = index / in, p = index % in;
  float sum = 0;
  for (int64_t o = 0; o < out; ++o) sum += float(dy[i * out + o]) * float(w[o * in + p]);
  dh[index] = T(sum * gelu_tanh_slope(float(h[index])));
}
template <class T>
__global__ void gelu_linear_dbias_kernel(const T* dh, T* dbias, int64_t n, int64_t in) {
  const int64_t p = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (p >= in) return;
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += float(dh[i * in + p]);
  dbias[p] = T(sum);
}

Plan gelu_linear_backward_data_naive(const GeluLinearBackwardData& p, GpuContext& gpu) {
  using P = GeluLinearBackwardData;
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const auto grid = [&](int64_t elements) {
        return Grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = stream};
      };
      T* dh = t[P::dh].as<T>();
      launch(gelu_linear_dh_kernel<T>, grid(p.n * p.in), t[P::dy].as<const T>(), t[P::w].as<const T>(),
             t[P::h].as<const T>(), dh, p.n, p.in, p.out);
      launch(gelu_linear_dbias_kernel<T>, grid(p.in), dh, t[P::dbias].as<T>(), p.n, p.in);
    };
  });
}
DUET_REGISTER(gelu_linear_backward_data_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
