// SPDX-License-Identifier: Apache-2.0
// A build of bench_all as the gate uses it: what it would measure, and a run of one process.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/compare/rows.h"
#include "reports/gate/program.h"

namespace duet::reports {

// A folder for the run files, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ~ScratchFolder();
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

// Seconds of samples in one process with so many jobs, by the defaults of bench_all (bench/options.cpp) or by these
// options. Checks, inputs and further series of a job come on top.
double samples_of_process_s(size_t jobs, const std::vector<std::string>& arguments);

class BenchProgram {
 public:
  // side: "base" or "head", for messages. arguments: its options, without --filter and --json.
  BenchProgram(std::string side, std::string program, std::vector<std::string> arguments, const ScratchFolder& scratch);

  // Names of the jobs that this build can run. Throws Error where the options do not suit it, else ProgramFailed.
  std::vector<std::string> jobs(const std::string& filter, double limit_s);
  // The same with those that it cannot run.
  std::vector<std::string> listed_jobs(const std::string& filter, double limit_s);
  // One process with these jobs. Throws ProgramFailed unless it leaves a run file that is complete.
  MeasuredRun run(const std::string& filter, Metric metric, double limit_s, double& wall_s);
  const std::string& path() const { return program_; }

 private:
  std::vector<std::string> list(const std::string& filter, double limit_s, bool all);
  ProgramEnd start(const std::vector<std::string>& more, double limit_s) const;
  [[noreturn]] void fail(const std::string& what, const ProgramEnd& end) const;
  std::string side_, program_;
  std::vector<std::string> arguments_;
  std::string result_;
  bool times_only_ = false;  // whether it has that option
};

}  // namespace duet::reports
