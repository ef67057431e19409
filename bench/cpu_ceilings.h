// SPDX-License-Identifier: Apache-2.0
// The limits of this CPU with a given number of threads: memory bandwidth by pattern and footprint, arithmetic rate by
// dtype, and the cost of a fork-join and of a clock read. The loops that are timed are listed in cpu_loops.h.
#pragma once
#include <cstdint>
#include <vector>

#include "core/ceiling.h"
#include "core/machine.h"

namespace duet {
class CpuContext;
}

namespace duet::bench {

// Names: cpu.{read,write,copy,update,triad} (B/s, one a footprint), cpu.clear (B/s, of the largest),
// cpu.fma.{f32,bf16,f16,f64} (FLOP/s), cpu.fma.i8 (OP/s, where VNNI exists), cpu.fork_join (s, with two threads or
// more), cpu.clock_read (s). All at cpu.threads() threads.
// full: every power of two is a footprint. quick: one for each cache and one for memory. smoke, for runs that show that
// everything works: the same, with few samples, and memory by a footprint that a large last-level cache may hold.
enum class CeilingEffort : uint8_t { smoke, quick, full };
std::vector<Ceiling> measure_cpu_ceilings(CpuContext& cpu, CeilingEffort effort);

// Footprints (bytes of all arrays together) at which bandwidth is measured, ascending; the last one is for memory.
std::vector<int64_t> bandwidth_footprints(const MachineInfo& machine, int threads, int64_t available_bytes,
                                          CeilingEffort effort);

}  // namespace duet::bench
