// SPDX-License-Identifier: Apache-2.0
// How the implementations of study/transfer on the CPU divide a copy among threads: equal parts, one for each.
#pragma once
#include <algorithm>

#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/study/transfer.h"

namespace duet {

// Null where the case is one that the CPU has as well.
inline const char* not_of_the_cpu(const Transfer& p) {
  if (p.direction != Transfer::Direction::h2d) return "a CPU has one side: its row is that of h2d";
  if (p.memory != Transfer::Memory::pageable) return "to a CPU all memory is the same: its row is that of pageable";
  if (p.async) return "a copy by the CPU has no stream: its row is that without async";
  return nullptr;
}

// copy(to, from, bytes) for each part. Parts begin at multiples of a line, and none is shorter than 64 KiB.
template <class CopyPart>
Plan in_parts(const Transfer& p, CpuContext& cpu, CopyPart copy) {
  const int64_t bytes = p.n * size_of(p.dtype);
  const int64_t part = std::max<int64_t>(64 << 10, ceil_div(bytes, 64 * cpu.threads()) * 64);
  return [bytes, part, copy, &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[Transfer::x].data);
    auto* y = static_cast<char*>(t[Transfer::y].data);
    cpu.parallel_for(ceil_div(bytes, part), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * part, to = std::min(bytes, last * part);
      copy(y + from, x + from, to - from);
    });
  };
}

}  // namespace duet
