// SPDX-License-Identifier: Apache-2.0
// bench_all: times every op on the CPU and the GPU, side by side, and verifies the buffers that it timed. supervisor.h
// starts the process that measures; run.cpp holds the steps of a run.
#include <fmt/core.h>

#include <csignal>

#include "bench/capture.h"
#include "bench/stop.h"
#include "bench/instructions.h"
#include "bench/run.h"
#include "bench/supervisor.h"
#include "bench/trace.h"
#include "bench/worker.h"
#include "core/command_line.h"
#include "core/error.h"
#include "core/process.h"

namespace {

void on_signal(int signal) {
  duet::bench::request_stop();
  std::signal(signal, SIG_DFL);  // a second one ends the program at once; the journal stays
}

// In the process that measures: the worker, or the only one.
int measure(const duet::bench::Options& options) {
  if (!options.worker) {
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
  }
  const duet::bench::Recording recording(options);
  return options.profile ? duet::bench::capture(options) : duet::bench::run(options);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace duet::bench;
  duet::prepare_process(argc, argv);
  int status = kFailed;
  try {
    Options options;
    if (const auto done = parse(argc, argv, options)) return *done;
    if (options.worker) worker::attach(*options.worker, options);
    if (options.count_instructions && !options.list) return count_instructions(options);
    if (options.list) return run(options);
    if (options.worker) {
      status = measure(options);
    } else {
      const Trace trace(options);
      status = options.in_process ? measure(options) : supervise(options, argv);
      if (status != kUsage) trace.write();
      return status;
    }
  } catch (const duet::Error& e) {
    fmt::print(stderr, "bench_all: {}\n", duet::one_line(e.what()));
    status = kUsage;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_all: {}\n", duet::one_line(e.what()));
    status = kFailed;
  }
  std::fflush(stdout);  // written before the supervisor hears of the end
  worker::finish(status);
  return status;
}
