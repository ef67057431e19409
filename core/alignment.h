// SPDX-License-Identifier: Apache-2.0
// For implementations whose library chose its algorithm for tensors that are aligned to more than their element: they
// refuse a run that brings others. What is written here falls back to narrower accesses instead.
#pragma once
#include <cstdint>

#include "core/error.h"
#include "core/plan.h"

namespace duet {

struct Misaligned : Error {
  using Error::Error;
};

// The tensor's memory. Throws Misaligned where its address is no multiple of `bytes`.
inline void* aligned_data(const Tensor& tensor, uintptr_t bytes) {
  if (reinterpret_cast<uintptr_t>(tensor.data) % bytes != 0)
    throw Misaligned("a tensor at {} is not aligned to {} bytes, for which the library chose its algorithm",
                     tensor.data, bytes);
  return tensor.data;
}

}  // namespace duet
