// SPDX-License-Identifier: Apache-2.0
// bench_all --count-instructions: how many instructions one application of each selected op takes on the CPU, by the
// processor (perf) where the machine allows it, else by valgrind. It times nothing: equal programs give equal numbers
// on any machine, however busy, so that duet gate --metric instructions sees a change of 1 %. Called by main.cpp.
#pragma once
#include "bench/options.h"

namespace duet::bench {

// Writes {"duet_counts": 1, "counter": "valgrind-3.19.0", "keys": {...}, "rows": {job: instructions}, "without": {job:
// reason}} where --json says. Returns an exit status. Throws Error where neither perf nor valgrind can count.
int count_instructions(const Options& options);

}  // namespace duet::bench
