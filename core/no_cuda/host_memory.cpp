// SPDX-License-Identifier: Apache-2.0
// core/host_memory.h for builds without CUDA.
#include "core/host_memory.h"

#include "core/context.h"
#include "core/error.h"

namespace duet {

std::unique_ptr<Context> open_host_memory(Context& gpu, HostMemory) {
  throw Error("{} is no GPU, which host memory is for", gpu.describe());
}

}  // namespace duet
