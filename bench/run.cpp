// SPDX-License-Identifier: Apache-2.0
// run() at the end is the table of contents; each step is a function above it.
#include "bench/run.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <random>

#include "bench/case_timer.h"
#include "bench/cases.h"
#include "bench/cpu_ceilings.h"
#include "bench/describe.h"
#include "bench/journal.h"
#include "bench/overhead.h"
#include "bench/progress.h"
#include "bench/roof.h"
#include "bench/sweeps.h"
#include "core/atomic_file.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/gpu.h"
#include "results/rules.h"
#include "results/run_file.h"

namespace duet::bench {
namespace {

using results::Job;
using results::Status;

std::string now_utc(const char* format) { return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr))); }

void make_folder_of(const std::string& path) {  // where it fails, opening the file says why
  std::error_code ignored;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
}

void write_file(const std::string& path, const std::string& text) {
  make_folder_of(path);
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

// To standard output or to a file, as --json says.
void output(const Options& options, const std::string& text) {
  if (options.json_to_stdout())
    fmt::print("{}", text);
  else
    write_file(*options.json, text);
}

int list(const Options& options, const Cases& cases) {
  if (options.json) {
    output(options, results::listing_text(describe_jobs(cases)));
    return 0;
  }
  for (const auto& c : cases)
    for (const Side& s : c->sides)
      fmt::print("{}{}\n", s.job, s.unavailable_reason.empty() ? "" : "  (" + s.unavailable_reason + ")");
  return 0;
}

Devices open_devices(const Options& options) {
  Devices d;
  const int threads = options.threads.value_or(usable_threads());
  d.cpu = std::make_unique<CpuContext>(threads);
  if (!options.threads && threads > 1 && options.preset >= Preset::standard && options.cpu)
    d.one_thread = std::make_unique<CpuContext>(1);
  d.no_gpu = "not selected (--device cpu)";
  if (options.gpu) d.gpu = open_gpu(d.no_gpu);
  return d;
}

// "cpu.tuned 1.23 ms (91 %), cuda.tuned 0.05 ms (80 %)"
std::string outcome(const std::vector<Job>& jobs) {
  std::string text;
  for (const Job& job : jobs) {
    if (job.status == Status::skipped) continue;
    text += (text.empty() ? "" : ", ") + job.impl;
    if (job.status == Status::failed) {
      text += " FAILED";
      continue;
    }
    const results::Series& first = job.series.front();
    text += fmt::format(" {:.4g} ms", first.summary.median_s * 1e3);
    if (first.roof) text += fmt::format(" ({:.0f} %)", 100 * first.roof->fraction);
  }
  return text.empty() ? "skipped" : text;
}

class BenchRun {
 public:
  BenchRun(const Options& options, Cases& cases, Devices& devices)
      : options_(options),
        cases_(cases),
        devices_(devices),
        progress_(static_cast<int>(cases.size())),
        jobs_(cases.size()) {}

  void describe() {
    results::Invocation& i = run_.invocation;
    i.id = now_utc("{:%Y%m%d-%H%M%S}");
    i.started_at = now_utc("{:%Y-%m-%dT%H:%M:%SZ}");
    i.seed = options_.seed;
    i.argv = options_.argv;
    i.selection = describe_selection(options_);
    i.threads = devices_.cpu->threads();
    if (!devices_.gpu) i.no_gpu = devices_.no_gpu;
    run_.context = describe_context(i.started_at);
    run_.build = describe_build();
    run_.machine = describe_machine(devices_.gpu.get());
    run_.state = describe_state();
    progress_.note(devices_.cpu->describe() +
                   (devices_.gpu ? "; " + devices_.gpu->describe() : "; GPU: not measured (" + devices_.no_gpu + ")"));
  }

  // Learns before the run, not after an hour, that its result cannot be written.
  void probe_output() {
    if (!to_file()) return;
    make_folder_of(*options_.json);
    AtomicFile probe(*options_.json);
    if (options_.resume) Journal::require(*options_.json);
  }

  void measure_machine() {
    progress_.note("measuring the machine's limits");
    run_.ceilings = measure_ceilings();
    if (options_.cpu) run_.invocation.harness_overhead_s = harness_overhead_s(*devices_.cpu);
  }

  void open_journal() {
    if (to_file()) journal_.open(*options_.json, run_, options_.resume);
    if (!journal_.resumed_from().empty()) run_.invocation.warnings.push_back(journal_.resumed_from());
  }

  // In random order, so that a slow drift of the machine meets all ops alike.
  void measure_cases() {
    std::vector<size_t> order(cases_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(options_.seed));
    CaseTimer timer(options_, devices_);
    try {
      for (const size_t i : order) {
        progress_.begin(cases_[i]->name());
        if (take_from_journal(i))
          progress_.end("from the journal");
        else
          measure_case(timer, i);
      }
      run_.invocation.complete = true;
    } catch (const Interrupted&) {
      skip_the_rest();
    }
  }

  void measure_machine_again() {
    if (run_.invocation.complete && options_.preset != Preset::smoke)
      run_.ceilings = results::join_ceilings(std::move(run_.ceilings), measure_ceilings(), run_.invocation.warnings);
  }

  void gather_jobs() {
    for (std::vector<Job>& of_case : jobs_)
      for (Job& job : of_case) {
        // Jobs of an earlier process stay compared with the ceilings that it measured.
        if (!journal_.finished(job.name)) annotate_roof(run_.ceilings, job);
        run_.jobs.push_back(std::move(job));
      }
    run_.sweeps = sweeps_of(run_.jobs);
    run_.invocation.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void write() {
    if (!options_.json) return;
    output(options_, results::run_text(run_));
    if (run_.invocation.complete) journal_.remove();
  }

  int conclude() {
    const auto count = [&](Status status) {
      return std::count_if(run_.jobs.begin(), run_.jobs.end(), [&](const Job& j) { return j.status == status; });
    };
    for (const std::string& w : run_.invocation.warnings) progress_.note("warning: " + w);
    progress_.note(fmt::format("{} jobs, {} failed, {:.0f} s{}", run_.jobs.size(), count(Status::failed),
                               run_.invocation.wall_s,
                               run_.invocation.complete ? ""
                               : options_.cases.empty() ? "; interrupted, --resume goes on"
                                                        : "; interrupted"));
    if (!run_.invocation.complete) return kInterrupted;
    if (count(Status::failed) > 0) return kFailed;
    return count(Status::ok) > 0 ? 0 : kNothingMeasured;
  }

 private:
  bool to_file() const { return options_.json && !options_.json_to_stdout(); }

  std::vector<Ceiling> measure_ceilings() {
    const bool quick = options_.preset <= Preset::quick;
    std::vector<Ceiling> all;
    const auto add = [&](std::vector<Ceiling> more) {
      all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    if (options_.cpu) add(measure_cpu_ceilings(*devices_.cpu, quick));
    if (options_.cpu && devices_.one_thread) add(measure_cpu_ceilings(*devices_.one_thread, quick));
    try {
      if (devices_.gpu && !CaseTimer::stop_is_requested()) add(measure_gpu_ceilings(*devices_.gpu, quick));
    } catch (const std::exception& e) {  // a GPU that fails does not cost the CPU side
      run_.invocation.warnings.push_back(fmt::format("the GPU's ceilings could not be measured: {}", e.what()));
    }
    return all;
  }

  // Whether an earlier process finished all sides of the case.
  bool take_from_journal(size_t i) {
    const std::vector<Side>& sides = cases_[i]->sides;
    if (!std::all_of(sides.begin(), sides.end(), [&](const Side& s) { return journal_.finished(s.job); })) return false;
    for (const Side& s : sides) jobs_[i].push_back(*journal_.finished(s.job));
    return true;
  }

  void measure_case(CaseTimer& timer, size_t i) {
    BenchCase& c = *cases_[i];
    try {
      jobs_[i] = timer.measure(c);
      for (Job& job : jobs_[i]) {
        annotate_roof(run_.ceilings, job);
        require_valid(job);
      }
      for (const Job& job : jobs_[i]) {
        journal_.add(job);
        if (job.status == Status::failed)
          progress_.note(fmt::format("FAILED {}: {}\n  again: {}", job.name, job.reason, job.repro));
      }
      progress_.end(outcome(jobs_[i]));
    } catch (const std::exception& e) {  // of drawing inputs, of the reference, of memory: it costs this case alone
      jobs_[i] = without_result(c, Status::failed, e.what());
      progress_.note(fmt::format("FAILED {}: {}", c.name(), e.what()));
      progress_.end("failed");
    }
  }

  void skip_the_rest() {
    for (size_t i = 0; i < cases_.size(); ++i)
      if (jobs_[i].empty()) jobs_[i] = without_result(*cases_[i], Status::skipped, "interrupted before it ran");
  }

  static std::vector<Job> without_result(const BenchCase& c, Status status, const std::string& reason) {
    std::vector<Job> jobs;
    for (const Side& side : c.sides) {
      Job& job = jobs.emplace_back();
      static_cast<results::JobDescription&>(job) = describe_job(c, side);
      job.status = status;
      job.reason = reason;
      if (status == Status::failed) job.repro = c.repro(side);
    }
    return jobs;
  }

  const Options& options_;
  Cases& cases_;
  Devices& devices_;
  Progress progress_;
  Journal journal_;
  results::Run run_;                    // jobs and sweeps are filled in by gather_jobs()
  std::vector<std::vector<Job>> jobs_;  // by case, each in the order of its sides
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

int run(const Options& options) {
  Cases cases = select_cases(options);
  if (options.list) return list(options, cases);

  Devices devices = open_devices(options);
  if (!options.cpu && !devices.gpu) {
    fmt::print(stderr, "bench_all: --device gpu: {}\n", devices.no_gpu);
    return kNothingMeasured;
  }
  BenchRun run(options, cases, devices);
  run.probe_output();
  run.describe();
  run.measure_machine();
  if (CaseTimer::stop_is_requested()) return kInterrupted;
  run.open_journal();
  run.measure_cases();
  run.measure_machine_again();
  run.gather_jobs();
  run.write();
  return run.conclude();
}

}  // namespace duet::bench
