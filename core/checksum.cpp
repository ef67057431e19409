// SPDX-License-Identifier: Apache-2.0
#include "core/checksum.h"

#include <xxhash.h>

namespace duet {

uint64_t checksum(const void* data, int64_t bytes) { return XXH3_64bits(data, static_cast<size_t>(bytes)); }

}  // namespace duet
