// SPDX-License-Identifier: Apache-2.0
// The loops behind the CPU's ceilings (cpu_ceilings.h): no op should be faster. cpu_bandwidth.cpp and cpu_fma.cpp
// define them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet::bench {

// One way to run a bandwidth pattern over arrays of equal size, which lie on whole cache lines.
struct MemoryLoop {
  const char* pattern;  // read: x; write: x = s; clear: x = 0; copy: y = x; update: x = s x; triad: z = x + s y
  int arrays;
  int moves;  // arrays read plus written: compulsory traffic, without lines that a cache fetches to overwrite them
  void (*run)(float* x, float* y, float* z, int64_t floats);  // a multiple of kUnit
};
constexpr int64_t kUnit = 256;  // floats: 1 KiB, a whole number of rounds of every loop, so that there are no tails
std::vector<MemoryLoop> memory_loops();  // in the widest vectors of this CPU

// Independent multiply-adds that stay in registers.
struct ComputeLoop {
  std::vector<std::string> dtypes;  // for which it is a bound
  double operations;                // of one round
  void (*run)(int64_t rounds);
};
std::vector<ComputeLoop> compute_loops();  // those that this CPU can run; several may serve one dtype

}  // namespace duet::bench
