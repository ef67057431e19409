// SPDX-License-Identifier: Apache-2.0
// duet doctor: what was found, what is missing and how to add it, what would make measurements on this machine
// untrustworthy, and what is broken. Called by main.cpp.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/machine.h"

namespace duet {

struct DoctorOptions {
  bool json = false;
};
int run_doctor(const DoctorOptions& options);  // 0, or 1 when something is broken

struct Finding {
  std::string name, value;
  std::string advice;  // what it means or what to do; may be empty
};

// Everything that measurement_warnings() looks at, so that a test can invent a machine.
struct Circumstances {
  MachineInfo machine;
  MachineState state;
  CpuUse probe;  // use of the CPUs by others, while this program slept
  CpuTimes since_boot;
  std::string build_type, build_flags;
  std::string blas_core;                                // what OpenBLAS runs as
  std::function<const char*(const char*)> environment;  // getenv
  int64_t huge_bytes = -1;  // how much of 8 MiB the kernel put in huge pages; negative: unknown
};
// What would make the numbers of a run untrustworthy, each with its reason. In doctor_warnings.cpp.
std::vector<Finding> measurement_warnings(const Circumstances& here);

}  // namespace duet
