// SPDX-License-Identifier: Apache-2.0
// Managed memory, whose pages move between host and device.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

// Enqueues that the pages of this managed memory move to the device, or to the host.
void prefetch_managed(const void* memory, int64_t bytes, bool to_device, cudaStream_t stream);

}  // namespace duet::cuda
