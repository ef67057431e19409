// SPDX-License-Identifier: Apache-2.0
#include "simt/host/constant.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "simt/host/memory.h"

namespace duet::simt::host {

void* constant_memory(const void* variable, const char* name, int64_t count, int64_t element_bytes) {
  static std::unordered_map<const void*, Region*> variables;
  Region*& r = variables[variable];
  if (!r) {
    constexpr size_t kGuard = 256;  // on either side, so that a report of an index beyond the variable has its name
    const auto element = static_cast<size_t>(element_bytes), bytes = static_cast<size_t>(count) * element;
    r = &device_memory().allocate(bytes + 2 * kGuard, name, false, element);
    r->first = kGuard;
    r->end = kGuard + bytes;
    r->constant = true;
  }
  return r->base + r->first;
}

void fill_constant(void* memory, const void* from, int64_t bytes) {
  const Region& to = *device_memory().find(memory);
  const auto size = static_cast<int64_t>(to.end - to.first);
  if (bytes < 0 || bytes > size)
    throw Report(fmt::format("a copy of {} bytes into '{}', which has {}", bytes, to.name, size));
  if (bytes > 0) {
    Region* source = device_memory().find(from);
    const int64_t first = source ? static_cast<const char*>(from) - source->base : 0;
    if (!source || first < static_cast<int64_t>(source->first) || first + bytes > static_cast<int64_t>(source->end))
      throw Report(fmt::format("a copy of {} bytes into '{}' from {}", bytes, to.name,
                               source
                                   ? source->place(static_cast<size_t>(first)) + ", which has " +
                                         std::to_string((source->end - source->first) / source->element) + " elements"
                                   : "memory that is not the device's"));
    const auto begin = static_cast<size_t>(first), last = begin + static_cast<size_t>(bytes) - 1;
    for (size_t i = begin >> source->shift; settings.blocks == 0 && !source->all_written && i <= last >> source->shift;
         ++i)
      if (!source->cells[i].written)
        throw Report(fmt::format("a copy of {} into '{}': it has not been written before",
                                 source->place(std::max(begin, i << source->shift)), to.name));
    std::memcpy(memory, from, static_cast<size_t>(bytes));
    mark(memory, bytes, true);
  }
  char* const rest = static_cast<char*>(memory) + bytes;
  std::memset(rest, 0xFF, static_cast<size_t>(size - bytes));
  mark(rest, size - bytes, false);
}

}  // namespace duet::simt::host
