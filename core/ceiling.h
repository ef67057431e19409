// SPDX-License-Identifier: Apache-2.0
// A limit of a device, measured in the same run as the jobs that are held against it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct Ceiling {
  std::string name;     // cpu.copy, cpu.fma.f32, gpu.mma.bf16, gpu.h2d.pinned, gpu.launch
  std::string device;   // cpu, gpu
  std::string pattern;  // read, copy, update, triad; empty unless a bandwidth
  std::string dtype;    // of a compute peak: f32, bf16, f32/tf32, ...
  int threads = 1;
  int64_t footprint_bytes = 0;
  double value = 0;  // 95th percentile of the samples
  std::string unit;  // B/s, FLOP/s, s
  std::vector<double> samples;
};

}  // namespace duet
