// SPDX-License-Identifier: Apache-2.0
// Tells the software GPU (softgpu/) which tensors a node of a tape has, since a tape keeps all of its tensors in a few
// allocations. Models call it before and after each node; no other device has the function.
#pragma once
#include <cstddef>

namespace duet {

struct ScopedTensor {
  enum class Access : unsigned char { none, read, write };  // none: memory that others share with the node's tensors
  const void* memory;
  size_t bytes;
  const char* name;
  Access access;
};

}  // namespace duet

// Work that is enqueued from now on, or recorded, may touch only these tensors in the memory of access none. Without
// tensors: all memory again. job: the node, for messages.
extern "C" [[gnu::weak]] void duet_softgpu_scope(const char* job, const duet::ScopedTensor* tensors, size_t count);
