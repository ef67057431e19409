// SPDX-License-Identifier: Apache-2.0
// duet profile: profiles one job or training step by what this machine has. On a GPU nsys, and ncu for the job's
// kernels; on the CPU perf, or valgrind where perf is not allowed; everywhere the recorder's timeline. Each tool starts
// bench_all --profile, so that only the runs of the job are captured. It prints the commands, leaves the files and ends
// in a summary. Called by main.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/profile_tables.h"

namespace duet {

struct ProfileOptions {
  std::string what;  // a job, an op, or a training step: "step/lenet", "step/lenet/cpu/f32/batch:4"
  std::string folder = "out/profile";
  std::string tool = "auto";  // auto, nsys, ncu, perf, valgrind, recorder
  uint64_t runs = 10;
  std::string gpu;        // of several: its number in nvidia-smi, or its UUID
  uint64_t threads = 0;   // of the CPU; 0: all
  double limit_s = 600;   // of each tool
  std::string bench_all;  // the program; empty: beside this one
  bool dry_run = false;   // print the commands, run nothing
};
// Returns an exit status: 0, kFailed where the job fails, kUnsupported where it cannot run here. Throws Error.
int run_profile(const ProfileOptions& options);

// What bench_all is to run: one case on one side.
struct ProfileTarget {
  std::string case_text, implementation;
  bool gpu = false;
  std::string job() const;
};
// has_gpu: where an op or a step without a side runs. Throws Error that lists near names.
ProfileTarget profile_target(const std::string& what, bool has_gpu);

// The parts of the summary, by tool.
std::string trace_summary(const profile::Trace& trace);
std::string functions_summary(const profile::Functions& functions);
// bytes: modelled traffic of one application.
std::string counters_summary(const std::vector<profile::Counter>& counters, uint64_t runs, double bytes);
struct NsysTables {
  std::vector<profile::GpuRange> ranges;
  std::vector<profile::KernelTime> kernels;
  std::vector<profile::CopyTime> copies;
  profile::Gaps gaps;
};
std::string nsys_summary(const NsysTables& tables);
std::string ncu_summary(const std::vector<profile::KernelMetrics>& kernels);

}  // namespace duet
