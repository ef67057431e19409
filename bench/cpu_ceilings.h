// SPDX-License-Identifier: Apache-2.0
// What this CPU can do at best with a given number of threads: memory bandwidth by pattern and footprint, arithmetic by
// dtype, and what a fork and a look at the clock cost.
#pragma once
#include <cstdint>
#include <vector>

#include "core/ceiling.h"
#include "core/machine.h"

namespace duet {
class CpuContext;
}

namespace duet::bench {

// Names: cpu.{read,copy,update,triad} (B/s, one a footprint), cpu.fma.{f32,bf16,f16,f64} (FLOP/s), cpu.fma.i8 (OP/s,
// where VNNI exists), cpu.fork_join (s, with two threads or more), cpu.clock_read (s). All at cpu.threads() threads.
// quick: a point for each cache and memory, in some 2 s; otherwise every power of two, in some 6 s.
std::vector<Ceiling> measure_cpu_ceilings(CpuContext& cpu, bool quick);

// Bytes of all arrays together for which bandwidth is measured, ascending, the last for memory.
std::vector<int64_t> bandwidth_footprints(const MachineInfo& machine, int threads, int64_t available_bytes, bool quick);

}  // namespace duet::bench
