// SPDX-License-Identifier: Apache-2.0
#include "bench/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

#include <cerrno>
#include <cstring>

#include "bench/case_timer.h"
#include "bench/describe.h"
#include "bench/run.h"
#include "bench/stop.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/gpu_capture.h"

namespace duet::bench {
namespace {

using results::Job;
using results::Status;

#ifdef CALLGRIND_START_INSTRUMENTATION
void start_callgrind() { CALLGRIND_START_INSTRUMENTATION; }
void stop_callgrind() { CALLGRIND_STOP_INSTRUMENTATION; }
#else
void start_callgrind() {}
void stop_callgrind() {}
#endif

// Enables and disables the events of `perf record --control fifo:COMMANDS,ANSWERS`.
class Perf {
 public:
  explicit Perf(const std::string& pipes) {
    const size_t comma = pipes.find(',');
    if (comma == pipes.npos) throw Error("--perf-control: two pipes are expected: COMMANDS,ANSWERS");
    commands_ = open(pipes.substr(0, comma).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // fails without a reader
    answers_ = open(pipes.substr(comma + 1).c_str(), O_RDWR | O_CLOEXEC);  // also for writing: never waits for perf
    if (commands_ < 0 || answers_ < 0) throw Error("--perf-control {}: {}", pipes, std::strerror(errno));
  }
  Perf(const Perf&) = delete;
  Perf& operator=(const Perf&) = delete;
  ~Perf() {
    close(commands_);
    close(answers_);
  }
  void tell(const std::string& command) const {
    if (write(commands_, command.data(), command.size()) != static_cast<ssize_t>(command.size())) return;
    char answer[16];
    [[maybe_unused]] const ssize_t got = read(answers_, answer, sizeof answer);  // "ack\n": it has taken effect
  }

 private:
  int commands_ = -1, answers_ = -1;
};

// What profilers look at. Those of the CPU: each series' applications. Those of a GPU: everything from the first
// series' to the last one's, since a capture of nsys ends at the first cudaProfilerStop; ranges tell the series apart.
class Captured {
 public:
  explicit Captured(const Options& options) {
    if (options.perf_control) perf_.emplace(*options.perf_control);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { stop_gpu(); }
  void begin() {
    if (!std::exchange(gpu_on_, true)) start_gpu_capture();
    if (perf_) perf_->tell("enable\n");
    start_callgrind();
    on_ = true;
  }
  void end(bool last) {
    if (std::exchange(on_, false)) {
      stop_callgrind();
      if (perf_) perf_->tell("disable\n");
    }
    if (last) stop_gpu();
  }

 private:
  void stop_gpu() {
    if (std::exchange(gpu_on_, false)) stop_gpu_capture();
  }
  bool on_ = false, gpu_on_ = false;
  std::optional<Perf> perf_;
};

}  // namespace

int capture(const Options& options) {
  Cases cases = select_cases(options);
  Devices devices = open_devices(options);
  if ((!options.cpu || options.gpu_choice) && !devices.gpu) {
    fmt::print(stderr, "bench_all: {}: {}\n", options.gpu_choice ? "--gpu " + *options.gpu_choice : "--device gpu",
               devices.no_gpu);
    return kNothingMeasured;
  }
  const std::vector<Ceiling> no_ceilings;
  CaseTimer timer(options, devices, no_ceilings);
  Captured captured(options);
  int ran = 0, failed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Job> jobs;
    try {
      const bool last_case = i + 1 == cases.size();
      jobs = timer.capture(*cases[i], {.runs = *options.profile,
                                       .begin = [&] { captured.begin(); },
                                       .end = [&](bool last) { captured.end(last && last_case); }});
    } catch (const Interrupted&) {
      return kInterrupted;
    }
    for (const Job& job : jobs) {
      ran += job.status == Status::ok;
      failed += job.status == Status::failed;
      if (job.status == Status::failed)
        fmt::print("FAILED {}: {}\n  again: {}\n", job.name, job.reason, job.repro);
      else
        fmt::print("{}: {}\n", job.name,
                   job.status == Status::ok ? fmt::format("{} applications a series", *options.profile) : job.reason);
    }
  }
  fmt::print("{} jobs captured, {} failed; no time was measured\n", ran, failed);
  return failed > 0 ? kFailed : ran > 0 ? 0 : kNothingMeasured;
}

}  // namespace duet::bench
