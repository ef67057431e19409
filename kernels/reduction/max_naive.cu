// SPDX-License-Identifier: Apache-2.0
// max and argmax: one block for each result. Each thread looks at every kThreads-th element, and a tree merges what the
// threads have found. Along axis 0 neighbouring threads read addresses `cols` elements apart.
#include "kernels/reduction/largest.cuh"
#include "ops/reduction/max.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// One block of kThreads for each result, 8 bytes of shared memory for each thread. Result i: x[i * step + j * stride],
// j < length. Store: a StoreLargest.
template <class T, class Store>
__global__ void largest_kernel(const T* x, Store store, int64_t length, int64_t step, int64_t stride) {
  DUET_SHARED(float, values, [kThreads]);
  DUET_SHARED(int, places, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  x += blockIdx.x * step;
  Largest largest;
  for (int64_t j = thread; j < length; j += kThreads) largest.add(float(x[j * stride]), static_cast<int>(j));

  // Tree over the threads.
  values[thread] = largest.value;
  places[thread] = largest.place;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      largest.merge(values[thread + half], places[thread + half]);
      values[thread] = largest.value;
      places[thread] = largest.place;
    }
  }
  if (thread == 0) store(blockIdx.x, largest);
}

// P: Max or ArgMax. out(Args): what StoreLargest has.
template <class T, class P, class Out>
Plan plan(const P& p, const Out& out, GpuContext& gpu) {
  const bool rows = p.axis == 1;
  const Grid grid{.blocks = p.results(), .threads = kThreads, .stream = gpu.stream()};
  return [p, grid, rows, out](Args t) {
    const StoreLargest store{out(t)};
    launch(largest_kernel<T, decltype(store)>, grid, t[P::x].template as<const T>(), store, p.length(),
           rows ? p.cols : 1, rows ? 1 : p.cols);
  };
}

Plan max_naive(const Max& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() {
    return plan<T>(
        p, [](Args t) { return t[Max::y].as<T>(); }, gpu);
  });
}
DUET_REGISTER(max_naive);

Plan argmax_naive(const ArgMax& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() {
    return plan<T>(
        p, [](Args t) { return t[ArgMax::index].as<int>(); }, gpu);
  });
}
DUET_REGISTER(argmax_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
