// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/bench_program.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "reports/gate/gate.h"
#include "results/run_file.h"

namespace duet::reports {
namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 2, kNothingMeasured = 77;  // exit statuses of bench_all
constexpr const char* kTimesOnly = "--times-only";

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "duet_gate.XXXXXX").string();
  if (!mkdtemp(name.data())) throw Error("{}: no folder can be made there", fs::temp_directory_path().string());
  folder_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

double samples_of_process_s(size_t jobs, const std::vector<std::string>& arguments) {
  const auto given_as = [&](const std::string& name, double value) {
    for (const std::string& a : arguments)
      if (a.starts_with(name + "=")) value = std::strtod(a.c_str() + name.size() + 1, nullptr);
    return value;
  };
  const auto scale = [&](const char* name) {
    return std::find(arguments.begin(), arguments.end(), fmt::format("--scale={}", name)) != arguments.end();
  };
  const bool smoke = scale("smoke"), large = scale("standard") || scale("full");
  return static_cast<double>(jobs) *
         given_as("--repetitions", smoke   ? 1
                                   : large ? 5
                                           : 3) *
         given_as("--min-time", smoke   ? 0.02
                                : large ? 0.5
                                        : 0.025);
}

BenchProgram::BenchProgram(std::string side, std::string program, std::vector<std::string> arguments,
                           const ScratchFolder& scratch)
    : side_(std::move(side)),
      program_(std::move(program)),
      arguments_(std::move(arguments)),
      result_(scratch.path(side_ + ".json")) {
  // A name without a slash would be looked for in PATH.
  if (program_.find('/') == std::string::npos) program_ = "./" + program_;
  std::error_code error;
  if (!fs::exists(program_, error)) throw Error("--{} {}: there is no such program", side_, program_);
  if (fs::is_directory(program_, error)) throw Error("--{} {}: is a folder, not a program", side_, program_);
}

ProgramEnd BenchProgram::start(const std::vector<std::string>& more, double limit_s) const {
  std::vector<std::string> command{program_};
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  command.insert(command.end(), more.begin(), more.end());
  return run_program(command, limit_s);
}

void BenchProgram::fail(const std::string& what, const ProgramEnd& end) const {
  const std::string message = fmt::format("{} ({}) {}{}{}", side_, program_, what,
                                          end.last_output.empty() ? "" : "; it said: ", end.last_output);
  if (end.timed_out) throw ProgramTimedOut(message);
  throw ProgramFailed(message);
}

std::vector<std::string> BenchProgram::jobs(const std::string& filter, double limit_s) {
  return list(filter, limit_s, false);
}

std::vector<std::string> BenchProgram::listed_jobs(const std::string& filter, double limit_s) {
  return list(filter, limit_s, true);
}

std::vector<std::string> BenchProgram::list(const std::string& filter, double limit_s, bool all) {
  const auto start_list = [&] {
    std::error_code ignored;
    fs::remove(result_, ignored);
    std::vector<std::string> more{"--list", "--json=" + result_};
    if (!filter.empty()) more.push_back("--filter=" + filter);
    if (times_only_) more.emplace_back(kTimesOnly);
    return start(more, limit_s);
  };
  times_only_ = true;
  ProgramEnd end = start_list();
  if (end.exit_status == kUsage) {  // perhaps an older build, without this option
    times_only_ = false;
    end = start_list();
  }
  if (end.exit_status == kUsage) throw Error("{} ({}) refuses its options: {}", side_, program_, end.last_output);
  if (end.exit_status != 0) fail("cannot list its jobs: it " + end.how, end);
  std::vector<std::string> names;
  nlohmann::ordered_json document;
  try {
    std::ifstream file(result_, std::ios::binary);
    document = nlohmann::ordered_json::parse(file);
    for (const auto& job : document)
      if (all || job.at("unavailable_reason").get<std::string>().empty())
        names.push_back(job.at("name").get<std::string>());
  } catch (const nlohmann::json::exception&) {
    fail("is no bench_all: --list --json wrote no list of jobs", end);
  }
  return names;
}

MeasuredRun BenchProgram::run(const std::string& filter, Metric metric, double limit_s, double& wall_s) {
  std::error_code ignored;
  fs::remove(result_, ignored);
  std::vector<std::string> more{"--json=" + result_};
  if (!filter.empty()) more.push_back("--filter=" + filter);
  if (times_only_) more.emplace_back(kTimesOnly);
  const ProgramEnd end = start(more, limit_s);
  wall_s = end.wall_s;
  if (end.timed_out) fail(end.how, end);
  if (end.exit_status != 0 && end.exit_status != 1 && end.exit_status != kNothingMeasured) fail(end.how, end);
  if (!fs::exists(result_, ignored)) fail(end.how + " without having written a run file", end);
  try {
    MeasuredRun run = measured(results::load_run(result_), metric);
    run.file = program_;
    return run;
  } catch (const Error& e) {
    fail(fmt::format("wrote a run file that cannot be read: {}", e.what()), end);
  }
}

}  // namespace duet::reports
