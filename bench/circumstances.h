// SPDX-License-Identifier: Apache-2.0
// What would make numbers measured on this machine untrustworthy, and why: other work, limits of the process, variables
// that change how libraries run, a build that is not for timing. bench_all puts it into the run's warnings, `duet
// doctor` prints it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/gpu.h"
#include "core/machine.h"

namespace duet::bench {

struct Finding {
  std::string name, value;
  std::string advice;          // what it means or what to do; may be empty
  bool spoils_ratios = false;  // no comparison of a CPU with a GPU means anything under it
};

inline constexpr int64_t kHugeProbe = 8 << 20;  // bytes of a buffer of the CPU

// Everything that measurement_warnings() looks at, so that a test can invent a machine.
struct Circumstances {
  MachineInfo machine;
  MachineState state;
  CpuUse probe;  // use of the CPUs by others, while this program slept or measured
  CpuTimes since_boot;
  std::string build_type, build_flags;
  std::string blas_core;                                // what OpenBLAS runs as
  std::function<const char*(const char*)> environment;  // getenv
  std::optional<GpuUse> gpu = {};                       // of the run's GPU, where there is one and NVML tells
  int64_t huge_bytes = -1;  // how much of kHugeProbe the kernel put in huge pages; negative: unknown
};
// Of this process, except for `probe`, which takes time. What is asked of a device is left out where it is null.
Circumstances circumstances(Context* cpu = nullptr, Context* gpu = nullptr);

std::vector<Finding> measurement_warnings(const Circumstances& here);

}  // namespace duet::bench
