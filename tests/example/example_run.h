// SPDX-License-Identifier: Apache-2.0
// An invented run: what bench_all could write on a machine with a GPU, for tests and for looking at reports. No number
// in it is a measurement, and the run says so in its warnings and in the names of its devices. duet_example_run
// (main.cpp) writes it to a file. Times follow a simple model of two devices (bandwidth, rate, cost of a call), so that
// the rows fit together; equal options give equal runs.
#pragma once
#include <cstddef>

#include "results/run.h"

namespace duet::results::testing {

struct ExampleOptions {
  size_t cases = 0;     // 0: the cases of known models. More: these and further sizes of the same ops
  bool gpu = true;      // false: the same jobs on a machine without a GPU
  bool hostile = true;  // names with markup, formulas and control characters
};

Run example_run(const ExampleOptions& options);

}  // namespace duet::results::testing
