// SPDX-License-Identifier: Apache-2.0
// The blocker, which holds the stream back while runs are queued behind it; the read that empties the L2; the empty
// kernel.
#include "core/cuda/device_work.h"

#include "core/cuda/check.h"
#include "core/cuda/launch.h"

namespace duet::cuda {
namespace {

__device__ uint64_t global_timer_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// One block of one thread.
__global__ void blocker_kernel(const volatile uint32_t* go, volatile uint32_t* gave_up, uint64_t give_up_ns) {
  const uint64_t start = global_timer_ns();
  while (*go == 0) {
    if (global_timer_ns() - start > give_up_ns) {
      *gave_up = 1;
      __threadfence_system();
      return;
    }
    __nanosleep(100);
  }
}

// Blocks of 256 threads stride over `count` vectors. The sum is stored only if it equals a value that cannot occur in
// practice, so that the compiler keeps the loads.
__global__ void read_kernel(const uint4* from, int64_t count, uint4* sink) {
  uint4 sum{};
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const uint4 v = from[i];
    sum.x ^= v.x;
    sum.y ^= v.y;
    sum.z ^= v.z;
    sum.w ^= v.w;
  }
  if (sum.x == 0x5eed5eed && sum.y == 0x0badcafe && sum.z == 0x12345678 && sum.w == 0x9abcdef0) *sink = sum;
}

__global__ void empty_kernel() {}

}  // namespace

void enqueue_blocker(const volatile uint32_t* go, volatile uint32_t* gave_up, uint64_t give_up_ns,
                     cudaStream_t stream) {
  void* args[] = {&go, &gave_up, &give_up_ns};
  launch_kernel(reinterpret_cast<const void*>(&blocker_kernel), {.stream = stream}, args);
}

void enqueue_read(const void* memory, int64_t bytes, void* sink, int blocks, cudaStream_t stream) {
  int64_t count = bytes / 16;
  void* args[] = {&memory, &count, &sink};
  launch_kernel(reinterpret_cast<const void*>(&read_kernel), {.blocks = blocks, .threads = 256, .stream = stream},
                args);
}

void enqueue_empty(cudaStream_t stream) {
  launch_kernel(reinterpret_cast<const void*>(&empty_kernel), {.stream = stream}, nullptr);
}

cudaError_t probe_code() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&empty_kernel));
  if (status != cudaSuccess) cudaGetLastError();
  return status;
}

}  // namespace duet::cuda
