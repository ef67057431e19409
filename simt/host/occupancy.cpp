// SPDX-License-Identifier: Apache-2.0
// Theoretical occupancy by CUDA's own calculator (cuda_occupancy.h), for `duet kernel-profile`.
#include <cuda_runtime.h>

#include <algorithm>

#include "simt/profile.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define DUET_HAS_OCCUPANCY 1
#else
#define DUET_HAS_OCCUPANCY 0
#endif

namespace duet {

std::optional<Occupancy> theoretical_occupancy(int architecture, int threads, int registers, int64_t shared_bytes) {
#if DUET_HAS_OCCUPANCY
  struct Limits {
    int architecture, threads;
    int64_t shared, shared_of_a_block;
  };
  constexpr Limits kKnown[] = {{80, 2048, 167936, 166912},
                               {90, 2048, 233472, 232448}};  // CUDA Programming Guide, table of capabilities
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Limits& l) { return l.architecture == architecture; });
  if (known == std::end(kKnown)) return {};
  constexpr int kRegisters = 65536;
  cudaOccDeviceProp device;
  device.computeMajor = architecture / 10;
  device.computeMinor = architecture % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = known->threads;
  device.regsPerBlock = device.regsPerMultiprocessor = kRegisters;
  device.warpSize = 32;
  device.numSms = 1;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<size_t>(known->shared);
  device.sharedMemPerBlockOptin = static_cast<size_t>(known->shared_of_a_block);
  device.reservedSharedMemPerBlock = 1024;
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = 1024;
  kernel.numRegs = registers;
  kernel.sharedSizeBytes = 0;
  kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = static_cast<size_t>(shared_bytes);
  kernel.numBlockBarriers = 1;
  cudaOccDeviceState state;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                              static_cast<size_t>(shared_bytes)) != CUDA_OCC_SUCCESS)
    return {};
  Occupancy o;
  o.blocks = result.activeBlocksPerMultiprocessor;
  o.warps = static_cast<double>(o.blocks * ((threads + 31) / 32)) / (known->threads / 32.0);
  const int limit = static_cast<int>(result.limitingFactors);
  o.limit = limit & OCC_LIMIT_REGISTERS       ? "registers"
            : limit & OCC_LIMIT_SHARED_MEMORY ? "shared memory"
            : limit & OCC_LIMIT_WARPS         ? "warps"
                                              : "blocks";
  return o;
#else
  static_cast<void>(architecture);
  static_cast<void>(threads);
  static_cast<void>(registers);
  static_cast<void>(shared_bytes);
  return {};
#endif
}

}  // namespace duet
