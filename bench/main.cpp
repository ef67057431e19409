// SPDX-License-Identifier: Apache-2.0
// bench_all: times every op on the CPU and the GPU, side by side, and verifies the buffers that it timed. run.cpp holds
// the steps of a run.
#include <fmt/core.h>

#include <csignal>

#include "bench/case_timer.h"
#include "bench/run.h"
#include "core/error.h"
#include "core/process.h"

namespace {

void on_signal(int signal) {
  duet::bench::CaseTimer::request_stop();
  std::signal(signal, SIG_DFL);  // a second one ends the program at once; the journal stays
}

}  // namespace

int main(int argc, char** argv) {
  using namespace duet::bench;
  duet::prepare_process(argc, argv);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  try {
    Options options;
    if (const auto status = parse(argc, argv, options)) return *status;
    return run(options);
  } catch (const duet::Error& e) {
    fmt::print(stderr, "bench_all: {}\n", e.what());
    return kUsage;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_all: {}\n", e.what());
    return kFailed;
  }
}
