// SPDX-License-Identifier: Apache-2.0
// duet doctor: what was found, what is missing and how to add it, what would make numbers untrustworthy here, what is broken.
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

// All that the judgement of doctor_doubts.cpp rests on, so that a test can make a machine up.
struct Circumstances {
  MachineInfo machine;
  MachineState state;
  CpuUse probe;  // while this program slept
  CpuTimes since_boot;
  std::string build_type, build_flags;
  std::string blas_core;                                // what OpenBLAS runs as
  std::function<const char*(const char*)> environment;  // getenv
  int64_t huge_bytes = -1;  // of 8 MiB asked for in huge pages, what was given; negative: unknown
};
std::vector<Finding> doubts(const Circumstances& here);

}  // namespace duet
