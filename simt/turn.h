// SPDX-License-Identifier: Apache-2.0
// Turns of blocks, for kernels whose blocks wait for each other.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// How many blocks of the launch took their turn before this one; one thread of each block calls it, once. A block may
// wait for blocks whose turn was before its own: they have started, whatever order the device takes. counter: 0 before
// the launch. On the host, blocks that are left out (Settings::blocks) count as if they had taken their turns.
__device__ __forceinline__ int take_turn(int32_t* counter) {
  const int turn = atomicAdd(counter, 1);
#ifdef __CUDACC__
  return turn;
#else
  return host::settings.blocks > 0 ? static_cast<int>(blockIdx.x) : turn;
#endif
}

}  // namespace duet::DUET_DEVICE
