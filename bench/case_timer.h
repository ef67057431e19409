// SPDX-License-Identifier: Apache-2.0
// Times one case: all its sides interleaved under Google Benchmark, verified on the buffers that were timed. run.cpp
// calls measure() for each case in turn.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/cases.h"
#include "bench/meters.h"
#include "bench/options.h"
#include "bench/repetition.h"
#include "bench/roof_probe.h"
#include "core/context.h"
#include "results/run.h"

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

class CaseTimer {
 public:
  // ceilings: of the run; they tell which roof is probed beside a row. Kept by reference.
  // counters: of this machine; for --counters.
  CaseTimer(const Options& options, Devices& devices, const std::vector<Ceiling>& ceilings,
            const CounterSources& counters = machine_counters());

  // The jobs are in the order of the case's sides. They have no roofs and no verdicts yet. Throws Interrupted.
  std::vector<results::Job> measure(BenchCase& c);
  // In place of timing: applies each series `runs` times, after some to warm up, between begin() and end(), and then
  // verifies it. last: no series of the case follows. The jobs have no series.
  struct Capture {
    int runs;
    std::function<void()> begin;
    std::function<void(bool last)> end;
  };
  std::vector<results::Job> capture(BenchCase& c, const Capture& capture);

 private:
  using Timings = std::vector<std::unique_ptr<SeriesTiming>>;
  std::string unavailable_reason(const Side& side) const;
  Timings start_all(BenchCase& c, std::vector<results::Job>& jobs);
  results::Job start(BenchCase& c, const Side& side, Timings& timings);
  bool set_up(BenchCase& c, const Side& side, results::Job& job, Timings& timings);
  void add_timings(const Side& side, const std::shared_ptr<Runner>& runner, int threads, Timings& timings) const;
  void calibrate(Timings& timings) const;
  void capture_series(SeriesTiming& t, const Capture& capture, bool last);
  void add_probes(Timings& timings);
  std::shared_ptr<RoofProbe> probe_of(const SeriesTiming& t, bool again);
  void run_benchmarks(Timings& timings);
  bool grow(SeriesTiming& t, const results::Repetition& first) const;
  void repetition(SeriesTiming& t, const std::function<void(double)>& report);
  void verify(SeriesTiming& t, bool last);
  void count_all(Timings& timings);
  void count(SeriesTiming& t);
  void finish(BenchCase& c, SeriesTiming& t);

  const Options& options_;
  Devices& devices_;
  std::map<const Context*, RoofProbes> probes_;
  std::map<Device, Gauges> gauges_;  // empty without --counters
  double clock_read_s_;
  int order_ = 0;  // of repetitions
};

}  // namespace duet::bench
