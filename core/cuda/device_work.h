// SPDX-License-Identifier: Apache-2.0
// The context's own kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

// One thread that spins until *go is not 0, or for `give_up_ns` by the global timer; then it sets *gave_up.
// Both words lie in pinned host memory.
void enqueue_blocker(const volatile uint32_t* go, volatile uint32_t* gave_up, uint64_t give_up_ns, cudaStream_t stream);

void enqueue_read(const void* memory, int64_t bytes, void* sink, int blocks, cudaStream_t stream);  // 16-byte loads
void enqueue_empty(cudaStream_t stream);

// Whether this program holds code for the current device; the API's answer otherwise.
cudaError_t probe_code();

}  // namespace duet::cuda
