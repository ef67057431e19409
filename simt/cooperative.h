// SPDX-License-Identifier: Apache-2.0
// Cooperative launches: all blocks are on the device at once, and may wait for each other.
#pragma once
#include "simt/launch.h"

#ifdef __CUDACC__
#include "core/cuda/cooperative.h"
#else
#include "simt/host/cooperative.h"
#endif

namespace duet::DUET_DEVICE {

// How many blocks a cooperative launch of the kernel may have; 0 where the device has no such launches.
template <class... P>
int64_t cooperative_blocks(void (*kernel)(P...), int threads, int64_t shared_bytes, const GpuContext& gpu) {
#ifdef __CUDACC__
  return cooperative_blocks(reinterpret_cast<const void*>(kernel), threads, shared_bytes, gpu.multiprocessors());
#else
  static_cast<void>(kernel);
  return host::cooperative_blocks(gpu.multiprocessors(), gpu.capability(), threads, shared_bytes);
#endif
}

// As launch() (simt/launch.h). More blocks than cooperative_blocks() are an error.
template <class... P, class... A>
void launch_cooperative(void (*kernel)(P...), const Grid& grid, [[maybe_unused]] const GpuContext& gpu, A&&... args) {
#ifdef __CUDACC__
  static_assert(sizeof...(P) == sizeof...(A), "launch: as many arguments as the kernel has parameters");
  [&](std::remove_cv_t<P>... values) {  // of the kernel's parameter types: the runtime reads them as raw bytes
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    launch_cooperative_kernel(reinterpret_cast<const void*>(kernel), grid, pointers);
  }(static_cast<std::remove_cv_t<P>>(args)...);
#else
  const host::Together together(gpu.multiprocessors());
  launch(kernel, grid, args...);
#endif
}

// The barrier of the grid, to which all threads of all blocks come: what any thread did before it happens before what
// any thread does after it. Memory that the launch writes is not loaded with __ldg. arrived: 0 before the launch;
// number: how many barriers of the launch were before this one; (number + 1) times the blocks is below 2^32.
#ifdef __CUDACC__
__device__ __forceinline__ void grid_barrier(uint32_t* arrived, uint32_t number) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const uint32_t all = (number + 1) * gridDim.x * gridDim.y * gridDim.z;
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile uint32_t*>(arrived) < all) spin_pause();
    __threadfence();
  }
  __syncthreads();
}
#else
__attribute__((always_inline)) inline void grid_barrier(uint32_t* arrived, uint32_t number,
                                                        host::Where at = host::Where::current()) {
  host::grid_barrier(arrived, number, at);
}
#endif

}  // namespace duet::DUET_DEVICE
