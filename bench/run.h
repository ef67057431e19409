// SPDX-License-Identifier: Apache-2.0
// One run: every selected case, its sides interleaved under Google Benchmark, verified, recorded.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cases.h"
#include "bench/options.h"
#include "bench/record.h"
#include "core/context.h"

namespace duet {
class CpuContext;
}

namespace duet::bench {

// The devices of a run. gpu is null when there is none, and then no_gpu says why.
struct Devices {
  std::unique_ptr<CpuContext> cpu, one_thread;  // one_thread: only where the run has a one-thread row
  std::unique_ptr<Context> gpu;
  std::string no_gpu;
};

class Run {
 public:
  Run(const Options& options, Devices& devices);

  // Times all sides of a case; the records are in the order of its sides. Throws Interrupted.
  std::vector<JobRecord> measure(BenchCase& c);
  static void request_stop();  // from a signal handler
  static bool stop_is_requested();

 private:
  struct Timing;  // a series while it is taken
  JobRecord start(BenchCase& c, const Side& side, std::vector<std::unique_ptr<Timing>>& timings);
  void take(std::vector<std::unique_ptr<Timing>>& timings);
  void repetition(Timing& t, const std::function<void(double)>& report);
  void finish(BenchCase& c, Timing& t);

  const Options& options_;
  Devices& devices_;
  double clock_read_s_;
  int order_ = 0;
};

struct Interrupted {};

}  // namespace duet::bench
