// SPDX-License-Identifier: Apache-2.0
// One thread per element of each result: the formula as written.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/gemm/linear.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// All kernels here: ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (n, in), w: (out, in), bias:
// (out), y, pre: (n, out); pre is null unless the activation is gelu.
template <class T>
__global__ void linear_kernel(const T* x, const T* w, const T* bias, T* y, T* pre, int64_t n, int64_t in, int64_t out,
                              Act act) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= n * out) return;
  const int64_t i = index / out, o = index % out;
  float sum = 0;
  for (int64_t p = 0; p < in; ++p) sum += float(x[i * in + p]) * float(w[o * in + p]);
  sum += float(bias[o]);
  if (act == Act::gelu) {
    pre[index] = T(sum);
    sum = gelu_tanh(sum);
  }
  y[index] = T(act == Act::relu ? fmaxf(sum, 0) : sum);
}

Plan linear_naive(const Linear& p, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n * p.out, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(linear_kernel<T>, grid, t[Linear::x].as<const T>(), t[Linear::w].as<const T>(),
             t[Linear::bias].as<const T>(), t[Linear::y].as<T>(), p.act == Act::gelu ? t[Linear::pre].as<T>() : nullptr,
             p.n, p.in, p.out, p.act);
    };
  });
}
DUET_REGISTER(linear_naive);

// The gradient before the activation. none: dy; relu: dy where y > 0, else 0; gelu: dy times gelu's slope at y, which
// is then the tensor pre.
template <class T>
__device__ float gradient(const T* y, const T* dy, int64_t index, Act act) {
  if (act == Act::none) return float(dy[index]);
  const float gate = float(y[index]);
  return act == Act::gelu ? float(dy[index]) * gelu_tanh_slope(gate) : gate > 0 ? float(dy[index]) : 0;
}

// dx: (n, in).
template <class T>
__global__ void linear_dx_kernel(const T* w, const T* y, const T* dy, T* dx, int64_t n, int64_t in, int64_t out,
                                 Act act) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= n * in) return;
  const int64_t i = index / in, p = index % in;
  float sum = 0;
  for (int64_t o = 0; o < out; ++o) sum += gradient(y, dy, i * out + o, act) * float(w[o * in + p]);
  dx[index] = T(sum);
}

// dw: (out, in). Column `in` of the grid is dbias: (out).
template <class T>
__global__ void linear_dw_kernel(const T* x, const T* y, const T* dy, T* dw, T* dbias, int64_t n, int64_t in,
                                 int64_t out, Act act) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= out * (in + 1)) return;
  const int64_t o = index / (in + 1), p = index % (in + 1);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += gradient(y, dy, i * out + o, act) * (p < in ? float(x[i * in + p]) : 1);
  if (p < in)
    dw[o * in + p] = T(sum);
  else
    dbias[o] = T(sum);
}

Plan linear_backward_naive(const LinearBackward& p, GpuContext& gpu) {
  using P = LinearBackward;
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *w = t[P::w].as<const T>(), *y = t[P::y].as<const T>();
      const T* dy = t[P::dy].as<const T>();
      const auto grid = [&](int64_t elements) {
        return Grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = stream};
      };
      launch(linear_dx_kernel<T>, grid(p.n * p.in), w, y, dy, t[P::dx].as<T>(), p.n, p.in, p.out, p.act);
      launch(linear_dw_kernel<T>, grid(p.out * (p.in + 1)), x, y, dy, t[P::dw].as<T>(), t[P::dbias].as<T>(), p.n, p.in,
             p.out, p.act);
    };
  });
}
DUET_REGISTER(linear_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
