// SPDX-License-Identifier: Apache-2.0
// A worker measures; its supervisor (supervisor.h) watches it from another process. Here is what the two share: the
// task, and a page of memory in which the worker says what it does, so that the supervisor knows what a crash or a hang
// costs. In a program without a supervisor (--in-process) the reports go nowhere.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "bench/options.h"
#include "results/run.h"

namespace duet::bench {

// What a worker is busy with. From prepare to count it works on one job, or on all jobs of a case; probe: it chooses
// the probes of the case's roofs.
enum class Phase : uint32_t {
  start,
  ceilings,
  prepare,
  plan,
  calibrate,
  probe,
  measure,
  verify,
  profile,
  count,
  finish
};
constexpr size_t kPhases = 11;
const char* name_of(Phase);

// Shared memory: a worker that dies leaves its last words here.
struct WorkerPage {
  static constexpr uint64_t kMagic = 0x31656b726f576574;
  static constexpr size_t kMaxPath = 4096, kMaxJobs = 1 << 13, kMaxWords = 1024;

  // Written by the supervisor before the worker starts.
  uint64_t magic = kMagic;
  char result[kMaxPath] = {}, journal[kMaxPath] = {};  // result: as after --json=; empty where nothing is written
  bool resume = false;                                 // go on from the journal of an earlier run
  int process = 0, processes = 1;                      // of --processes, counted from 0
  int generation = 0;                                  // of workers that went on with this run after the first
  int64_t started_ns = 0;                              // of the run, by the steady clock
  std::atomic<bool> stop = false;                      // write what there is and end

  // Written by the worker.
  struct Work {
    Phase phase = Phase::start;
    double limit_s = 0;        // without a beat, until the work counts as hung
    char jobs[kMaxJobs] = {};  // one a line; empty: work that is no job's
  };
  Work work[2];                               // written in turn, so that a crash never leaves half a name
  double phases_s[kPhases] = {};              // of the run so far, by phase
  std::atomic<uint32_t> current = 0;          // of `work`
  std::atomic<uint64_t> beats = 0;            // steps of progress
  std::atomic<int> exit_status = -1;          // set when the worker has finished
  std::atomic<bool> journal_opened = false;   // by a worker of this process of the run; an older one is not this run's
  std::atomic<bool> wants_successor = false;  // it cannot go on, as after an error that CUDA does not recover from
  char last_words[kMaxWords] = {};            // of std::terminate
};

namespace worker {

// Maps the page and takes over the signals: the supervisor alone reacts to SIGINT and SIGTERM, and passes on the first.
// Sets in the options what the supervisor decides. Throws Error where `descriptor` is not a supervisor's.
void attach(int descriptor, Options& options);
const WorkerPage* page();                           // null without a supervisor
std::chrono::steady_clock::time_point run_start();  // of the first worker; now, without a supervisor
void finish(int exit_status);

void works_on(Phase phase, const std::string& jobs, double limit_s);  // jobs: names, one a line
void works_on(Phase phase);                                           // no job's work
results::Amounts phases_s();  // how long this run was busy with each phase, all its workers together
void beat();                  // the work goes on: its limit counts from now
void want_successor();
void journal_opened();

}  // namespace worker

// Limits of a job, seconds without progress. They tell a hang from slow work, so they are generous: the first is for
// everything that happens before a job has been timed, 10 minutes and four times what a serial implementation would
// take; the second for a repetition, by the time that calibrating took.
double uncalibrated_limit_s(double flops, double bytes);
double calibrated_limit_s(double calibration_s);

}  // namespace duet::bench
