// SPDX-License-Identifier: Apache-2.0
// Calibrates one series and takes its samples, in its scope and cache state.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/runner.h"
#include "core/device_queue.h"
#include "core/upload_stream.h"
#include "results/run.h"

namespace duet::bench {

using results::Cache;
using results::Scope;

class Sampler {
 public:
  struct Counts {
    int batch = 1,
        groups = 1;  // a sample: groups of so many applications; between groups, data are restored or evicted
    int samples = 1, repetitions = 1;
    double sample_s = 0;  // of all applications of a sample, as calibrated
  };
  Sampler(Runner& runner, Scope scope, Cache cache, double clock_read_s);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Times a first call by the wall clock, warms up, and fixes batch, groups, samples and repetitions. They stay as
  // they are, unless grow() says otherwise.
  // budget_s: seconds of samples in a repetition. At most 100 samples are to fill it: a short application has larger
  // ones, unless the runner wants single calls.
  Counts calibrate(double budget_s, int repetitions);
  // took_s: all applications of the samples of a first repetition. Where they took much less than the budget, since
  // calibration was disturbed, the counts grow, and the repetition has to be taken again: true.
  bool grow(double budget_s, double took_s);
  // taken, took_s: the samples of a repetition so far and all applications of them. Whether the next sample may be the
  // last. It may not where the machine became faster since the counts were fixed, so that the repetition would be too
  // short; then it has up to three times as many samples.
  bool one_more_will_do(double budget_s, int taken, double took_s) const;
  const Counts& counts() const { return counts_; }
  // Before a repetition: on a GPU, applications that are not timed for 20 ms, or the budget where that is less. Its
  // clock falls while the CPU's side has its turn, and takes milliseconds to rise.
  void wake(double budget_s);
  void refresh_uploads();  // scopes with copies upload what the inputs hold now
  double sample();         // seconds of one application
  // So many applications in the scope and cache state of the series, without a clock: for profilers. Between them, data
  // are restored or evicted as between samples.
  void apply(int runs);
  int applications() const { return counts_.batch * counts_.groups; }  // in a sample
  double first_call_s() const { return first_call_s_; }
  bool synchronises() const { return synchronises_; }  // in a sample

 private:
  bool on_gpu() const { return runner_->context().device() != Device::cpu; }
  double planned_s(double budget_s) const;
  int batch_for(double target_s, double one_s) const;
  double first_call();
  std::pair<double, double> shortest(int batch);
  // Seconds of one application. *waited: whether it waited for the device, so that its time is not the device's alone.
  double timed(int batch, bool* waited = nullptr);
  double timed_call(int batch);
  double timed_end_to_end(int batch);
  double timed_overlapped(int batch);

  Runner* runner_;
  Scope scope_;
  Cache cache_;
  double clock_read_s_, first_call_s_ = 0;
  Counts counts_;
  bool synchronises_ = false;
  // An application in the kernel scope, on the next copy. One function for the whole series: a GPU's queue knows the
  // series by it (cuda::GpuContext::device_time).
  std::function<void()> run_;
  int copy_ = 0;
  struct Transfer {
    PinnedBuffer host;
    void* device;
    Buffer next = {};  // overlapped: memory on the device for the next batch
  };
  std::vector<Transfer> up_, down_;
  std::unique_ptr<UploadStream> beside_;  // declared last: its destructor waits for copies to that memory
};

double clock_read_s();  // cost of one steady_clock read here

}  // namespace duet::bench
