// SPDX-License-Identifier: Apache-2.0
// When results should bypass the caches.
#pragma once
#include <cstdint>

#include "core/machine.h"

namespace duet {

// True when a plan that touches `bytes` in all finds nothing of its output in cache the next time: then non-temporal
// stores save reading each line before it is written. Below that, they would push out a result that is read next.
// The kernel's figure, not sysconf's: glibc reports the L3 of all sockets' slices together on AMD.
inline bool beyond_cache(int64_t bytes) {
  static const int64_t cache = [] {
    const int64_t last_level = read_machine().last_level_bytes();
    return last_level > 0 ? last_level : int64_t{8} << 20;  // containers may hide it
  }();
  return bytes > cache;
}

}  // namespace duet
