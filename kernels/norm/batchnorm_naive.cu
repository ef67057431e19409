// SPDX-License-Identifier: Apache-2.0
// One block per channel computes its sums, in double, so that rounding is small for any number of elements; then one
// thread per element applies them.
#include "core/context.h"
#include "simt/launch.h"
#include "ops/norm/batchnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// The index map of both layouts: nchw is (images, c, pixels); nhwc is (images pixels, c, 1).
struct Place {
  int64_t c, pixels, count;  // count: elements of a channel
  __device__ __forceinline__ int64_t channel(int64_t i) const { return i / pixels % c; }
  // The index of element k of channel q.
  __device__ __forceinline__ int64_t at(int64_t q, int64_t k) const {
    return (k / pixels * c + q) * pixels + k % pixels;
  }
};
Place place_of(const Channels& p) { return {p.c, p.layout == Layout::nchw ? p.pixels() : 1, p.count()}; }
Grid elements_grid(const Channels& p, cudaStream_t stream) {
  return {.blocks = ceil_div(p.elements(), kThreads), .threads = kThreads, .stream = stream};
}

// The sum of v over the block, for all threads. part: kThreads doubles of shared memory, which may be reused on return.
__device__ __forceinline__ double block_sum(double v, double* part) {
  const int thread = static_cast<int>(threadIdx.x);
  part[thread] = v;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  __syncthreads();
  v = part[0];
  __syncthreads();
  return v;
}

// One block of kThreads per channel, 2 KiB of shared memory. x is indexed by `place`; the other tensors are (c).
template <class T>
__global__ void statistics_kernel(const T* x, float* running_mean, float* running_var, float* mean, float* rstd,
                                  Place place, double eps, double momentum, double unbiased) {
  DUET_SHARED(double, part, [kThreads]);
  const int64_t q = blockIdx.x;
  const double total = place.count > 0 ? static_cast<double>(place.count) : 1;

  // Mean and variance.
  double sum = 0, squares = 0;
  for (int64_t k = threadIdx.x; k < place.count; k += kThreads) sum += float(x[place.at(q, k)]);
  const double m = block_sum(sum, part) / total;
  for (int64_t k = threadIdx.x; k < place.count; k += kThreads) {
    const double deviation = float(x[place.at(q, k)]) - m;
    squares += deviation * deviation;
  }
  const double variance = block_sum(squares, part) / total;

  // Write back, and update the running statistics.
  if (threadIdx.x != 0) return;  // no barrier follows
  mean[q] = static_cast<float>(m);
  rstd[q] = static_cast<float>(1 / sqrt(variance + eps));
  running_mean[q] = static_cast<float>((1 - momentum) * running_mean[q] + momentum * m);
  running_var[q] = static_cast<float>((1 - momentum) * running_var[q] + momentum * variance * unbiased);
}

// An elements_grid, no shared memory. residual may be null. y = act((x - mean) scale gamma + beta + residual), where
// scale is rstd; with eps >= 0, `rstd` holds variances, and scale is computed from them.
template <class T>
__global__ void normalise_kernel(const T* x, const T* gamma, const T* beta, const float* mean, const float* rstd,
                                 double eps, const T* residual, T* y, int64_t elements, Place place, bool relu) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t q = place.channel(i);
  const float scale = eps < 0 ? rstd[q] : static_cast<float>(1 / sqrt(rstd[q] + eps));
  float v = (float(x[i]) - mean[q]) * scale * float(gamma[q]) + float(beta[q]);
  if (residual) v += float(residual[i]);
  y[i] = T(relu ? fmaxf(v, 0) : v);
}

Plan batchnorm_naive(const BatchNorm& p, GpuContext& gpu) {
  using P = BatchNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>();
      float *mean = t[P::mean].as<float>(), *rstd = t[P::rstd].as<float>();
      launch(statistics_kernel<T>, Grid{.blocks = p.c, .threads = kThreads, .stream = stream}, x,
             t[P::running_mean].as<float>(), t[P::running_var].as<float>(), mean, rstd, place_of(p), p.eps, p.momentum,
             p.unbiased());
      launch(normalise_kernel<T>, elements_grid(p, stream), x, t[P::gamma].as<const T>(), t[P::beta].as<const T>(),
             mean, rstd, -1, p.residual ? t[P::added].as<const T>() : nullptr, t[P::y].as<T>(), p.elements(),
             place_of(p), p.relu());
    };
  });
}
DUET_REGISTER(batchnorm_naive);

Plan batchnorm_inference_naive(const BatchNormInference& p, GpuContext& gpu) {
  using P = BatchNormInference;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch(normalise_kernel<T>, elements_grid(p, stream), t[P::x].as<const T>(), t[P::gamma].as<const T>(),
             t[P::beta].as<const T>(), t[P::mean].as<const float>(), t[P::var].as<const float>(), p.eps,
             p.residual ? t[P::added].as<const T>() : nullptr, t[P::y].as<T>(), p.elements(), place_of(p), p.relu());
    };
  });
}
DUET_REGISTER(batchnorm_inference_naive);

// One block of kThreads per channel, 2 KiB of shared memory. y is null without relu. sums: (2, c), of g and g xhat,
// unrounded.
template <class T>
__global__ void gradients_kernel(const T* x, const float* mean, const float* rstd, const T* dy, const T* y, T* dgamma,
                                 T* dbeta, float* sums, Place place) {
  DUET_SHARED(double, part, [kThreads]);
  const int64_t q = blockIdx.x;

  // Sums of g and of g xhat.
  double sum = 0, dot = 0;
  for (int64_t k = threadIdx.x; k < place.count; k += kThreads) {
    const int64_t i = place.at(q, k);
    const float g = !y || float(y[i]) > 0 ? float(dy[i]) : 0;
    sum += g;
    dot += g * ((float(x[i]) - mean[q]) * rstd[q]);
  }
  sum = block_sum(sum, part);
  dot = block_sum(dot, part);

  // Write back.
  if (threadIdx.x != 0) return;  // no barrier follows
  sums[q] = static_cast<float>(sum);
  sums[place.c + q] = static_cast<float>(dot);
  dgamma[q] = T(sums[place.c + q]);
  dbeta[q] = T(sums[q]);
}

// An elements_grid, no shared memory. y is null without relu, dresidual without residual.
template <class T>
__global__ void images_kernel(const T* x, const T* gamma, const float* mean, const float* rstd, const T* dy, const T* y,
                              const float* sums, T* dx, T* dresidual, int64_t elements, Place place) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t q = place.channel(i);
  const float g = !y || float(y[i]) > 0 ? float(dy[i]) : 0, total = static_cast<float>(place.count);
  const float xhat = (float(x[i]) - mean[q]) * rstd[q];
  dx[i] = T(float(gamma[q]) * rstd[q] * (g - sums[q] / total - xhat * (sums[place.c + q] / total)));
  if (dresidual) dresidual[i] = T(g);
}

Plan batchnorm_backward_naive(const BatchNormBackward& p, GpuContext& gpu) {
  using P = BatchNormBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto sums = workspace.add<float>(2 * p.c);
    return Plan([p, sums, stream = gpu.stream()](Args t) {
             const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
             const T* y = p.relu() ? t[P::y].as<const T>() : nullptr;
             const float *mean = t[P::mean].as<const float>(), *rstd = t[P::rstd].as<const float>();
             launch(gradients_kernel<T>, Grid{.blocks = p.c, .threads = kThreads, .stream = stream}, x, mean, rstd, dy,
                    y, t[P::dgamma].as<T>(), t[P::dbeta].as<T>(), t.workspace(sums), place_of(p));
             launch(images_kernel<T>, elements_grid(p, stream), x, t[P::gamma].as<const T>(), mean, rstd, dy, y,
                    t.workspace(sums), t[P::dx].as<T>(), p.residual ? t[P::dadded].as<T>() : nullptr, p.elements(),
                    place_of(p));
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(batchnorm_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
