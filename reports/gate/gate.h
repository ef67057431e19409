// SPDX-License-Identifier: Apache-2.0
// Whether a program became slower: runs two builds of bench_all in interleaved processes, or takes the runs of one side
// or of both from files, or those of the base from a history, and decides by rule.h. counts.h decides by exact counts
// instead of times. Called by cli/gate.cpp.
#pragma once
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "reports/compare/compare.h"
#include "reports/gate/rule.h"
#include "results/noise.h"

namespace duet::reports {

struct GateSide {
  std::string program;             // bench_all, or
  std::vector<std::string> files;  // run files: of one process or of several, or, of the base only,
  // past runs that are comparable with the head's first one, oldest first.
  std::function<std::vector<MeasuredRun>(const MeasuredRun& head)> past_runs;
};

struct GateOptions {
  GateSide base, head;
  std::string filter;                  // of jobs; the gate narrows it to the suspects
  std::vector<std::string> arguments;  // for the programs, beside --filter and --json
  Metric metric = Metric::time;
  std::vector<std::string> allowed;  // keys that may differ
  double budget_s = 600;
  std::optional<double> process_limit_s;  // default: what is left of the budget
  results::NoiseFile noise;
  GateRule rule;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// A program that crashed, did not end in time or wrote what is no run file: neither side's times can be trusted.
struct ProgramFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// It was ended by its time limit: that of a process, or what was left of the budget.
struct ProgramTimedOut : ProgramFailed {
  using ProgramFailed::ProgramFailed;
};

// Says first how long it may take, and keeps to it. Throws Error, NotComparable, ProgramFailed and ProgramInterrupted.
Comparison run_gate(const GateOptions& options);

}  // namespace duet::reports
