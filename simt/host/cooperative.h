// SPDX-License-Identifier: Apache-2.0
// Cooperative launches where kernels run on the host: how the executor is asked for them.
#pragma once
#include <cstdint>

#include "simt/host/executor.h"

namespace duet::simt::host {

// While it lives, launches are cooperative, as on a device of so many multiprocessors.
class Together {
 public:
  explicit Together(int multiprocessors);
  ~Together();
  Together(const Together&) = delete;
};

// How many blocks a cooperative launch may have: as many as so many multiprocessors of sm_90 hold, by threads and
// dynamic shared memory, of kMaxThreadsTogether threads at most: each has a stack of its own.
constexpr int64_t kMaxThreadsTogether = 16384;
int64_t cooperative_blocks(int multiprocessors, int capability, int64_t threads, int64_t shared_bytes);

// Stops where the number is not that of this barrier, or the counter not what it would be on a GPU.
void grid_barrier(uint32_t* arrived, uint32_t number, Where at);

}  // namespace duet::simt::host
