// SPDX-License-Identifier: Apache-2.0
// How the studies of block sizes divide work on the CPU.
#pragma once
#include <algorithm>

#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

inline constexpr const char* kNoParts = "a CPU has no blocks: its rows are those with parts";

// body(first, last) for each of `parts` equal parts of [0, n), which are tasks of their own.
template <class Body>
void in_parts(const CpuContext& cpu, int64_t n, int64_t parts, const Body& body) {
  const int64_t length = std::max<int64_t>(1, ceil_div(n, parts));
  cpu.parallel_for(ceil_div(n, length), 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) body(part * length, std::min(n, (part + 1) * length));
  });
}

}  // namespace duet
