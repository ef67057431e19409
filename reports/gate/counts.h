// SPDX-License-Identifier: Apache-2.0
// The gate without a clock, for machines whose times cannot be trusted: instructions of CPU implementations
// (bench_all --count-instructions), or the static profile of GPU kernels (duet kernel-profile). Equal programs give
// equal numbers, so that one process of each side decides and 1 % is visible.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "reports/compare/compare.h"
#include "reports/gate/gate.h"

namespace duet::reports {

struct CountedRow {
  std::string job, family;
  double count = 0;
  bool is_part = false;  // of a job's row: of one of its kernels
};
// By the row's name: the job, or of a profile "job: registers sm_90" of all its kernels together and, where it has
// several, "job: softmax_kernel<float> in softmax_tuned.cu: registers sm_90" of each, so that a change of one shows
// undiluted. What has none has a reason.
struct Counts {
  std::string counter;  // what counted
  results::Facts keys;  // of the build and the settings: have to be equal; empty where they are not known
  std::map<std::string, CountedRow> rows;
  std::map<std::string, std::string> without;
};

// What bench_all --count-instructions writes. Throws Error.
Counts load_counts(const std::string& path);
// What duet kernel-profile prints of a job: instructions of the machine code, sectors, wavefronts of shared memory (by
// which bank conflicts show), barriers, registers and spills, over all its kernels and of each. Throws Error.
void add_kernel_profile(const std::string& where, const std::string& text, Counts& counts);

constexpr double kCountFloor = 0.01;  // smallest change of a count that is told
// allowed: keys that may differ. A part that only one side has, such as a kernel that was replaced, shows in its job's
// row. Throws NotComparable.
Comparison compare_counts(const Counts& base, const Counts& head, const std::vector<std::string>& allowed = {},
                          double floor = kCountFloor);

// Runs both programs of the options. kernels: the profiles of the program `duet` beside each bench_all; else
// instructions.
Comparison run_count_gate(const GateOptions& options, bool kernels);

}  // namespace duet::reports
