// SPDX-License-Identifier: Apache-2.0
#include "cpu_ref/streaming.h"

#include <cstdlib>

#include "core/attributes.h"
#include "core/machine.h"

namespace duet {

bool beyond_cache(int64_t bytes) {
  static const int64_t cache = [] {
    if (const char* given = std::getenv("DUET_LAST_LEVEL_BYTES"))
      return attribute::parse_int("DUET_LAST_LEVEL_BYTES", given);
    const int64_t last_level = read_machine().last_level_bytes();
    return last_level > 0 ? last_level : int64_t{8} << 20;  // 8 MiB where a container hides it
  }();
  return bytes - bytes / 6 > cache;
}

}  // namespace duet
