// SPDX-License-Identifier: Apache-2.0
#include "core/digest.h"

namespace duet {

Digest digest(Context& context, const void* data, DType dtype, int64_t elements) {
  context.synchronize();
  return host_digest(data, dtype, elements);  // the CPU's memory, and that of kernels on the host
}

}  // namespace duet
