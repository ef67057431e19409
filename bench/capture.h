// SPDX-License-Identifier: Apache-2.0
// bench_all --profile: runs the selected series a fixed number of times for a profiler that started this program, and
// times nothing. Profilers of the CPU see the runs alone: perf's events are enabled, callgrind's instrumentation is on.
// For a GPU the capture goes from cudaProfilerStart before the first series to cudaProfilerStop after the last. Called
// by main.cpp.
#pragma once
#include "bench/options.h"

namespace duet::bench {

int capture(const Options& options);  // returns an exit status

}  // namespace duet::bench
