// SPDX-License-Identifier: Apache-2.0
#include "simt/host/texture.h"

#include "simt/host/checker.h"

namespace duet::simt::host {

void check_fetch(const void* data, int64_t count, int64_t index, int64_t element_bytes, const void* pc) {
  if (index < 0 || index >= count)
    stop(fmt::format("out of bounds: fetch of element {} at {}, from a texture of {}", index, line(pc_of(pc)), count));
  const void* const element = static_cast<const char*>(data) + index * element_bytes;
  const auto bytes = static_cast<size_t>(element_bytes);
  Checker::read_only(element, bytes, "fetch", pc_of(pc));
  Checker::access(element, bytes, Access::load, pc_of(pc), true);
}

}  // namespace duet::simt::host
