// SPDX-License-Identifier: Apache-2.0
// The kernels of GpuContext itself: gpu_context.cpp uses them for device time and for cold samples.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

// One thread that spins until *go is not 0. After `give_up_ns` of the global timer it stops by itself and sets
// *gave_up. Both words lie in pinned host memory.
void enqueue_blocker(const volatile uint32_t* go, volatile uint32_t* gave_up, uint64_t give_up_ns, cudaStream_t stream);

void enqueue_read(const void* memory, int64_t bytes, void* sink, int blocks, cudaStream_t stream);  // 16-byte loads
void enqueue_empty(cudaStream_t stream);

// cudaSuccess where this program has code for the current device; otherwise the API's error.
cudaError_t probe_code();

}  // namespace duet::cuda
