// SPDX-License-Identifier: Apache-2.0
// Copies between pageable host memory and a GPU, as whole tensors are compared and inputs drawn: by way of two
// page-locked buffers, so that while the bus moves one chunk, all threads copy another from or to the host's memory.
// The driver does the same on one thread.
#pragma once
#include <array>
#include <cstdint>

#include "core/cuda/handle.h"

namespace duet::cuda {

class Staging {
 public:
  // Whether a copy of so many bytes from or to this host memory gains by it: it is pageable, and large. False where the
  // system refuses page-locked memory.
  bool helps(const void* host, int64_t bytes);
  void download(void* to, const void* from, int64_t bytes, cudaStream_t stream);  // returns when `to` holds it
  void upload(void* to, const void* from, int64_t bytes, cudaStream_t stream);    // `from` may change on return

 private:
  struct Buffer {
    PinnedMemory memory;
    Event used;  // after the last copy that uses it
  };
  const Buffer& buffer(int64_t chunk) const { return buffers_[static_cast<size_t>(chunk % 2)]; }  // they take turns
  std::array<Buffer, 2> buffers_;  // allocated at first use
  bool refused_ = false;
};

}  // namespace duet::cuda
