// SPDX-License-Identifier: Apache-2.0
// A limit of a device, measured in the same run as the jobs that are compared with it: bench/cpu_ceilings.h measures
// those of the CPU, core/gpu.h those of a GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct Ceiling {
  std::string name;     // cpu.copy, cpu.fma.f32, gpu.mma.bf16, gpu.h2d.pinned, gpu.launch
  std::string device;   // cpu, gpu
  std::string pattern;  // of a bandwidth: read, copy, update, triad; else empty
  std::string dtype;    // of a peak of arithmetic: f32, bf16, f32/tf32, ...; else empty
  int threads = 1;
  int64_t footprint_bytes = 0;
  double value = 0;  // 95th percentile of the samples
  std::string unit;  // B/s, FLOP/s, s
  std::vector<double> samples;
};

}  // namespace duet
