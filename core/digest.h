// SPDX-License-Identifier: Apache-2.0
// What a tensor holds, in a few bytes. On a GPU it is computed there, so that a large tensor can be compared with what
// it was, element for element, and nothing is downloaded.
#pragma once
#include <cstdint>

#include "core/context.h"
#include "core/dtype.h"

namespace duet {

struct Digest {
  uint64_t checksum = 0;  // of all bytes; to compare with another one of the same context
  bool finite = true;     // no element is NaN or infinite
};

// data: the context's memory. Waits for what was enqueued before.
Digest digest(Context& context, const void* data, DType dtype, int64_t elements);
Digest host_digest(const void* data, DType dtype, int64_t elements);  // of host memory
uint64_t exponent_bits(DType dtype);  // of an element: all are set where it is not finite. 0 for integers

}  // namespace duet
