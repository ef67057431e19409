// SPDX-License-Identifier: Apache-2.0
#include "bench/worker.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "bench/stop.h"
#include "core/error.h"

namespace duet::bench {
namespace {

using Clock = std::chrono::steady_clock;

WorkerPage* shared = nullptr;

// Adds up how long each phase took. Without a supervisor the times are this process's own.
class PhaseClock {
 public:
  void next(Phase phase) {
    const Clock::time_point now = Clock::now();
    times_s()[static_cast<size_t>(phase_)] += std::chrono::duration<double>(now - since_).count();
    phase_ = phase;
    since_ = now;
  }
  void begin(Clock::time_point start) { since_ = start; }
  double* times_s() { return shared ? shared->phases_s : own_s_; }

 private:
  Phase phase_ = Phase::start;
  Clock::time_point since_ = Clock::now();
  double own_s_[kPhases] = {};
} phase_clock;

constexpr double kWithoutJob_s = 1800;  // start, ceilings, writing: work that is no job's
constexpr double kFirst_s = 600, kSerialFlopPerS = 5e8, kSerialBytePerS = 5e7, kSerialTimes = 4;
constexpr double kMinCalibrated_s = 30, kCalibrations = 20;

// Says what was thrown, then ends the process as without this handler.
[[noreturn]] void on_terminate() {
  const auto say = [](const char* kind, const char* what) {
    std::snprintf(shared->last_words, WorkerPage::kMaxWords, "%s %s", kind, what);
  };
  if (const std::type_info* type = abi::__cxa_current_exception_type()) {
    try {
      std::rethrow_exception(std::current_exception());
    } catch (const std::exception& e) {
      say("uncaught exception:", e.what());
    } catch (...) {
      int status = 0;
      char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
      say("uncaught exception of type", name ? name : type->name());
    }
  }
  std::abort();
}

}  // namespace

const char* name_of(Phase phase) {
  constexpr const char* kNames[kPhases] = {"start",   "ceilings", "prepare", "plan",  "calibrate", "probe",
                                           "measure", "verify",   "profile", "count", "finish"};
  return kNames[static_cast<size_t>(phase)];
}

double uncalibrated_limit_s(double flops, double bytes) {
  return kFirst_s + kSerialTimes * (flops / kSerialFlopPerS + bytes / kSerialBytePerS);
}

double calibrated_limit_s(double calibration_s) { return std::max(kMinCalibrated_s, kCalibrations * calibration_s); }

namespace worker {

void attach(int descriptor, Options& options) {
  struct stat info {};
  void* memory = MAP_FAILED;
  if (fstat(descriptor, &info) == 0 && info.st_size == static_cast<off_t>(sizeof(WorkerPage)))
    memory = mmap(nullptr, sizeof(WorkerPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED || static_cast<WorkerPage*>(memory)->magic != WorkerPage::kMagic)
    throw Error("--worker {}: is for bench_all itself", descriptor);
  shared = static_cast<WorkerPage*>(memory);
  if (shared->result[0]) options.json = shared->result;
  options.resume = shared->resume;
  if (shared->generation == 0) phase_clock.begin(run_start());
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGUSR1, [](int) { request_stop(); });
  if (shared->stop) request_stop();  // asked for before the handler was there
  std::set_terminate(on_terminate);
}

const WorkerPage* page() { return shared; }

std::chrono::steady_clock::time_point run_start() {
  return shared ? Clock::time_point(std::chrono::nanoseconds(shared->started_ns)) : Clock::now();
}

void finish(int exit_status) {
  if (shared) shared->exit_status = exit_status;
}

void works_on(Phase phase, const std::string& jobs, double limit_s) {
  phase_clock.next(phase);
  if (!shared) return;
  const uint32_t next = 1 - shared->current;
  WorkerPage::Work& work = shared->work[next];
  work.phase = phase;
  work.limit_s = limit_s;
  const size_t length = std::min(jobs.size(), WorkerPage::kMaxJobs - 1);  // of more, some are measured once more
  std::memcpy(work.jobs, jobs.data(), length);
  work.jobs[length] = 0;
  shared->current = next;
  beat();
}

void works_on(Phase phase) { works_on(phase, "", kWithoutJob_s); }

results::Amounts phases_s() {
  results::Amounts all;
  for (size_t i = 0; i < kPhases; ++i) all.emplace_back(name_of(static_cast<Phase>(i)), phase_clock.times_s()[i]);
  return all;
}

void beat() {
  if (shared) shared->beats.fetch_add(1, std::memory_order_relaxed);
}

void journal_opened() {
  if (shared) shared->journal_opened = true;
}

void want_successor() {
  if (shared) shared->wants_successor = true;
}

}  // namespace worker
}  // namespace duet::bench
