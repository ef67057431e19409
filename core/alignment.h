// SPDX-License-Identifier: Apache-2.0
// For implementations of libraries, which refuse a run whose tensors lie where the library does not expect them:
// aligned to no more than their element, or an output in the memory of an input where its documentation does not allow
// it. What is written here falls back to narrower accesses, and may alias as the contract says.
#pragma once
#include <cstdint>

#include "core/error.h"
#include "core/plan.h"

namespace duet {

struct Misaligned : Error {
  using Error::Error;
};
struct Aliased : Error {
  using Error::Error;
};

// The tensor's memory. Throws Misaligned where its address is no multiple of `bytes`.
inline void* aligned_data(const Tensor& tensor, uintptr_t bytes) {
  if (reinterpret_cast<uintptr_t>(tensor.data) % bytes != 0)
    throw Misaligned("a tensor at {} is not aligned to {} bytes, for which the library chose its algorithm",
                     tensor.data, bytes);
  return tensor.data;
}

// Throws Aliased where the output has the memory of the input.
inline void require_apart(const Tensor& output, const Tensor& input, const char* names) {
  if (output.data == input.data && output.data != nullptr)
    throw Aliased("{} at {}: the library does not say that it allows this", names, output.data);
}

}  // namespace duet
