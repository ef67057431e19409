// SPDX-License-Identifier: Apache-2.0
// What the contract of a study says of its tensors beyond their shapes: whether they lie in memory of the host that a
// GPU reads and writes, and of which kind. A Session allocates it by open_host_memory(). To a CPU all memory is the
// same.
#pragma once
#include <cstdint>
#include <memory>

namespace duet {

class Context;

enum class HostMemory : uint8_t {
  none,               // it lies on the device
  pageable,           // ordinary memory: the driver copies it in pieces through pinned memory of its own
  pinned,             // page-locked
  mapped,             // page-locked, and kernels access it through the link
  managed,            // pages move to the side that touches them; before each run they are on the host
  managed_on_device,  // the same, but before each run they are on the device
};

struct Roofs {  // see core/op_traits.h
  bool cpu = true, gpu = true;
};

// A context whose memory is of that kind. It shares the queue of the GPU: it waits for all work before the host touches
// its memory. The GPU's context must outlive it. Throws Error where `gpu` is no GPU.
std::unique_ptr<Context> open_host_memory(Context& gpu, HostMemory kind);

}  // namespace duet
