// SPDX-License-Identifier: Apache-2.0
// run() at the end is the table of contents; each step is a function above it.
#include "bench/run.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>

#include "bench/case_timer.h"
#include "bench/cases.h"
#include "bench/circumstances.h"
#include "bench/cpu_ceilings.h"
#include "bench/describe.h"
#include "bench/journal.h"
#include "bench/overhead.h"
#include "bench/progress.h"
#include "bench/roof.h"
#include "bench/stop.h"
#include "bench/sweeps.h"
#include "bench/worker.h"
#include "core/atomic_file.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/nvtx.h"
#include "reports/format.h"
#include "reports/report.h"
#include "core/gpu.h"
#include "results/merge.h"
#include "results/noise.h"
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

// "cpu.tuned 1.23 ms (91 % memory), cuda.tuned 52.1 µs (80 % memory)"
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
    text += fmt::format(" {} ({})", reports::seconds(first.summary.median_s), reports::roof_text(first));
  }
  return text.empty() ? "skipped" : text;
}

int64_t count(const results::Run& run, Status status) {
  return std::count_if(run.jobs.begin(), run.jobs.end(), [&](const Job& j) { return j.status == status; });
}

// "prepare 41 s, measure 62 s": what took a tenth of the time or more.
std::string phases_of(const results::Invocation& i) {
  std::string text;
  if (i.phases_s)
    for (const auto& [name, time_s] : *i.phases_s)
      if (time_s >= std::max(1.0, 0.1 * i.wall_s))
        text += fmt::format("{}{} {:.0f} s", text.empty() ? "" : ", ", name, time_s);
  return text.empty() ? "" : " (" + text + ")";
}

std::string summary_of(const results::Run& run) {
  return fmt::format("{} jobs, {} failed, {:.0f} s{}{}", run.jobs.size(), count(run, Status::failed),
                     run.invocation.wall_s, phases_of(run.invocation),
                     run.invocation.complete ? "" : "; interrupted, --resume goes on");
}

std::string sentence_of(const Finding& f) { return fmt::format("{} {}: {}", f.name, f.value, f.advice); }

// A line on standard output, or on standard error where the run file goes to standard output.
void print(const Options& options, const std::string& line) {
  fmt::print(options.json_to_stdout() ? stderr : stdout, "{}{}", line, line.ends_with('\n') ? "" : "\n");
  std::fflush(stdout);
}

// The table of a run, what failed, what to doubt, and where it was written.
void print_conclusion(const Options& options, const results::Run& run) {
  print(options, "\n" + reports::console_table(run));
  for (const Job& job : run.jobs)
    if (job.status == Status::failed)
      print(options, fmt::format("FAILED {}: {}\n  again: {}", job.name, job.reason, job.repro));
  for (const std::string& w : run.invocation.warnings) print(options, "warning: " + w);
  print(options, summary_of(run));
  if (!options.json_to_stdout()) print(options, "written: " + *options.json);
}

std::string what_spoils_ratios() {
  std::string text;
  for (const Finding& f : measurement_warnings(circumstances()))
    if (f.spoils_ratios) text += (text.empty() ? "" : "; ") + sentence_of(f);
  return text;
}

struct NeedsSuccessor {};  // thrown where this process can measure no more, but a fresh one can

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
    for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
      if (const char* value = std::getenv(name); value && *value)
        i.warnings.push_back(
            fmt::format("a profiler is attached ({}): times include what it costs; --profile is for it", name));
    if (options_.trace)
      i.warnings.emplace_back("ranges were recorded (--trace): each may add a microsecond, as to a node of a step");
    if (!one_of_several())
      print(options_, devices_.cpu->describe() + (devices_.gpu ? "; " + devices_.gpu->describe()
                                                               : "; GPU: not measured (" + devices_.no_gpu + ")"));
  }

  // Learns before the run, not after an hour, that its result cannot be written.
  void probe_output() {
    if (!to_file()) return;
    make_folder_of(*options_.json);
    AtomicFile probe(*options_.json);
  }

  // Whether this process goes on with a run whose worker was lost: it then has that worker's description and ceilings.
  bool go_on() {
    const WorkerPage* page = worker::page();
    if (!page || page->generation == 0 || !page->journal_opened || !journal_.read(page->journal)) return false;
    continued_ = true;
    run_ = journal_.earlier();
    journal_.go_on();
    run_.invocation.warnings.push_back(
        fmt::format("{} further process{} finished this run after jobs that failed; all rows are compared with the "
                    "ceilings that the first one measured",
                    page->generation, page->generation == 1 ? "" : "es"));
    return true;
  }

  // --resume of a run that is complete: its exit status.
  std::optional<int> finished_before() {
    if (!options_.resume || !to_file() || std::filesystem::exists(Journal::path_for(*options_.json))) return {};
    std::optional<results::Run> earlier = complete_run(*options_.json);
    if (!earlier) return {};
    require_same_run(*earlier, run_);
    progress_.note(fmt::format("--resume: {} is complete, nothing is left to do", *options_.json));
    return exit_status_of(*earlier);
  }

  // The ceilings are measured while nothing else should run: what does run then is one of the warnings.
  void measure_machine() {
    if (options_.times_only) {
      for (const Finding& f : measurement_warnings(circumstances(devices_.cpu.get(), devices_.gpu.get())))
        run_.invocation.warnings.push_back(sentence_of(f));
      return;
    }
    worker::works_on(Phase::ceilings);
    progress_.note("measuring the machine's limits");
    Circumstances here = circumstances(devices_.cpu.get(), devices_.gpu.get());
    const CpuSnapshot before = CpuSnapshot::now();
    run_.ceilings = measure_ceilings();
    here.probe = cpu_use(before, CpuSnapshot::now());
    for (const Finding& f : measurement_warnings(here)) run_.invocation.warnings.push_back(sentence_of(f));
    if (options_.cpu) run_.invocation.harness_overhead_s = harness_overhead_s(*devices_.cpu);
  }

  void open_journal() {
    const std::string path = worker::page() ? worker::page()->journal
                             : to_file()    ? Journal::path_for(*options_.json)
                                            : "";
    if (path.empty()) return;
    if (!options_.resume || !resume(path)) journal_.begin(path, run_);
    worker::journal_opened();
  }

  // In random order, so that a slow drift of the machine meets all ops alike; in each process another one.
  void measure_cases() {
    const int process = worker::page() ? worker::page()->process : 0;
    std::vector<size_t> order(cases_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(options_.seed + static_cast<uint64_t>(process)));
    CaseTimer timer(options_, devices_, run_.ceilings);
    const bool gpu_was_lost = !lost_gpu().empty();
    try {
      for (const size_t i : order) {
        if (stop_is_requested()) throw Interrupted{};
        const bool measured = pending(*cases_[i]).empty();
        if (measured) take_from_journal(i);
        if (measured && continued_) {
          progress_.skip();  // the first worker has said it
          continue;
        }
        progress_.begin(cases_[i]->name());
        if (measured)
          progress_.end("from the journal");
        else
          measure_case(timer, i);
        if (worker::page() && !gpu_was_lost && !lost_gpu().empty()) throw NeedsSuccessor{};
      }
      run_.invocation.complete = true;
    } catch (const Interrupted&) {
      skip_the_rest();
    }
  }

  void measure_machine_again() {
    if (run_.invocation.complete && options_.preset != Preset::smoke && !options_.times_only)
      run_.ceilings = results::join_ceilings(std::move(run_.ceilings), measure_ceilings(), run_.invocation.doubts);
  }

  void gather_jobs() {
    for (std::vector<Job>& of_case : jobs_)
      for (Job& job : of_case) {
        // Jobs of an earlier process stay compared with the ceilings that it measured.
        if (!journal_.finished(job.name)) annotate_roof(run_, job);
        run_.jobs.push_back(std::move(job));
      }
    results::flag_beaten(run_.jobs);
    if (std::any_of(run_.jobs.begin(), run_.jobs.end(), [](const Job& job) {
          return job.device == results::Device::gpu && job.counters && job.counters->value_of(results::Quantity::bytes);
        }))
      run_.invocation.warnings.emplace_back(
          "counters were read in the same process (--counters): CUPTI stays attached to the GPU");
    run_.sweeps = sweeps_of(run_.jobs);
    results::decide_trust(run_, what_spoils_ratios());
    worker::works_on(Phase::finish);  // so that the phases are those up to here
    run_.invocation.phases_s = worker::phases_s();
    run_.invocation.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void write() {
    output(options_, results::run_text(run_));
    if (run_.invocation.complete) journal_.remove();
    worker::finish(exit_status_of(run_));  // what follows is only shown
  }

  // The table goes where the run file does not.
  int conclude() {
    if (!one_of_several()) {
      progress_.clear();
      print_conclusion(options_, run_);
    }
    return exit_status_of(run_);
  }

 private:
  // Of --processes, whose supervisor prints the joined run.
  static bool one_of_several() { return worker::page() && worker::page()->processes > 1; }

  bool to_file() const { return !options_.json_to_stdout(); }

  std::vector<Ceiling> measure_ceilings() {
    static const NvtxName kCeilings("ceilings");
    const NvtxRange range(kCeilings);
    const CeilingEffort effort = options_.preset == Preset::smoke   ? CeilingEffort::smoke
                                 : options_.preset <= Preset::sweep ? CeilingEffort::quick
                                                                    : CeilingEffort::full;
    std::vector<Ceiling> all;
    const auto add = [&](std::vector<Ceiling> more) {
      all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    if (options_.cpu) add(measure_cpu_ceilings(*devices_.cpu, effort));
    if (options_.cpu && devices_.one_thread) add(measure_cpu_ceilings(*devices_.one_thread, effort));
    try {
      if (devices_.gpu && !stop_is_requested()) add(measure_gpu_ceilings(*devices_.gpu, effort != CeilingEffort::full));
    } catch (const std::exception& e) {  // a GPU that fails does not cost the CPU side
      run_.invocation.warnings.push_back(fmt::format("the GPU's ceilings could not be measured: {}", e.what()));
    }
    return all;
  }

  // What is left of an earlier process's journal, or nothing.
  bool resume(const std::string& path) {
    if (!journal_.read(path)) {
      progress_.note(fmt::format("--resume: {} has no row yet: starting from the beginning", path));
      return false;
    }
    require_same_run(journal_.earlier(), run_);
    journal_.go_on();
    size_t failed = 0;
    for (const auto& [name, job] : journal_.jobs()) failed += job.status == Status::failed;
    std::string& warning = run_.invocation.warnings.emplace_back(fmt::format(
        "{} jobs are from an earlier process, compared with the ceilings that it measured", journal_.jobs().size()));
    if (failed > 0) warning += fmt::format("; {} of them failed there and were not run again", failed);
    return true;
  }

  // The sides that no earlier process has finished.
  std::vector<Side> pending(const BenchCase& c) const {
    std::vector<Side> sides = c.sides;
    std::erase_if(sides, [&](const Side& s) { return journal_.finished(s.job) != nullptr; });
    return sides;
  }

  void take_from_journal(size_t i) {
    for (const Side& s : cases_[i]->sides)
      if (const Job* job = journal_.finished(s.job)) jobs_[i].push_back(*job);
  }

  void measure_case(CaseTimer& timer, size_t i) {
    BenchCase& c = *cases_[i];
    const std::vector<Side> all = std::exchange(c.sides, pending(c));
    std::vector<Job> jobs;
    std::string failure;
    try {
      jobs = timer.measure(c);
      drop_victims_of_lost_gpu(jobs);
      for (Job& job : jobs) {
        annotate_roof(run_, job);
        require_valid(job);
      }
    } catch (const Interrupted&) {
      c.sides = all;
      throw;
    } catch (const std::exception& e) {  // of drawing inputs, of the reference, of memory: it costs this case alone
      failure = e.what();
      jobs.clear();
      c.release();
      for (const Side& side : c.sides) jobs.push_back(job_without_result(c, side, Status::failed, failure));
    }
    c.sides = all;
    worker::works_on(Phase::finish);
    journal_.add(jobs);  // before anything says that they are finished
    if (!failure.empty()) progress_.note(fmt::format("FAILED {}: {}", c.name(), failure));
    for (const Job& job : jobs)
      if (failure.empty() && job.status == Status::failed)
        progress_.note(fmt::format("FAILED {}: {}\n  again: {}", job.name, job.reason, job.repro));
    progress_.end(failure.empty() ? outcome(jobs) : "failed");

    take_from_journal(i);
    for (Job& job : jobs) jobs_[i].push_back(std::move(job));
    const auto place = [&](const Job& job) {
      return std::find_if(all.begin(), all.end(), [&](const Side& s) { return s.job == job.name; });
    };
    std::sort(jobs_[i].begin(), jobs_[i].end(), [&](const Job& x, const Job& y) { return place(x) < place(y); });
  }

  // After an error that CUDA does not recover from, later jobs fail because of it: a fresh worker measures them.
  static void drop_victims_of_lost_gpu(std::vector<Job>& jobs) {
    const std::string lost = lost_gpu();
    if (lost.empty() || !worker::page()) return;
    if (std::none_of(jobs.begin(), jobs.end(), [&](const Job& j) { return j.reason == lost; })) return;
    std::erase_if(
        jobs, [&](const Job& j) { return j.status == Status::failed && j.reason != lost && j.reason.ends_with(lost); });
  }

  void skip_the_rest() {
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (!jobs_[i].empty()) continue;
      for (const Side& side : cases_[i]->sides) {
        const Job* earlier = journal_.finished(side.job);
        jobs_[i].push_back(
            earlier ? *earlier : job_without_result(*cases_[i], side, Status::skipped, "interrupted before it ran"));
      }
    }
  }

  const Options& options_;
  Cases& cases_;
  Devices& devices_;
  Progress progress_;
  Journal journal_;
  bool continued_ = false;              // whether an earlier worker began this run
  results::Run run_;                    // jobs and sweeps are filled in by gather_jobs()
  std::vector<std::vector<Job>> jobs_;  // by case, each in the order of its sides
  const std::chrono::steady_clock::time_point start_ = worker::run_start();
};

}  // namespace

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

int exit_status_of(const results::Run& run) {
  if (!run.invocation.complete) return kInterrupted;
  if (count(run, Status::failed) > 0) return kFailed;
  return count(run, Status::ok) > 0 ? 0 : kNothingMeasured;
}

std::optional<results::Run> complete_run(const std::string& path) {
  try {
    results::Run run = results::load_run(path);
    if (run.invocation.complete) return run;
  } catch (const Error&) {  // there is none, or it is something else
  }
  return {};
}

namespace {

// Of --aa: how much each row differs between the processes of this run.
void write_noise(const Options& options, const results::Run& run) {
  results::NoiseFile noise = results::load_noise_if_any(options.noise);
  results::add_noise(run, noise);
  write_file(options.noise, results::noise_text(noise));
  const results::NoiseSummary all = results::summary_of(noise, run);
  print(options, all.rows == 0 ? std::string("noise: no row has a result in at least 3 processes")
                               : fmt::format("noise between {} processes: median {:.1f} %, largest {:.1f} % ({}); "
                                             "written: {}",
                                             options.processes, 100 * all.median, 100 * all.largest, all.largest_row,
                                             options.noise));
}

}  // namespace

int join_processes(const Options& options, const std::vector<std::string>& parts) {
  std::vector<results::Run> runs;
  for (const std::string& part : parts) runs.push_back(results::load_run(part));
  results::Run run = results::merge(std::move(runs));
  run.file.clear();
  run.invocation.complete = run.invocation.complete && static_cast<int>(parts.size()) == options.processes;
  for (Job& job : run.jobs) annotate_roof(run, job);
  results::flag_beaten(run.jobs);
  run.sweeps = sweeps_of(run.jobs);
  const results::Trust of_parts = run.invocation.trust;
  results::decide_trust(run, what_spoils_ratios());
  run.invocation.trust = std::max(run.invocation.trust, of_parts);
  output(options, results::run_text(run));
  print_conclusion(options, run);
  if (options.aa) write_noise(options, run);
  return exit_status_of(run);
}

int run(const Options& options) {
  Cases cases = select_cases(options);
  if (options.list) return list(options, cases);

  Devices devices = open_devices(options);
  if ((!options.cpu || options.gpu_choice) && !devices.gpu) {
    fmt::print(stderr, "bench_all: {}: {}\n", options.gpu_choice ? "--gpu " + *options.gpu_choice : "--device gpu",
               devices.no_gpu);
    return kNothingMeasured;
  }
  BenchRun run(options, cases, devices);
  run.probe_output();
  if (!run.go_on()) {
    run.describe();
    if (const auto status = run.finished_before()) return *status;
    if (stop_is_requested()) return kInterrupted;
    run.measure_machine();
    if (stop_is_requested()) return kInterrupted;
    run.open_journal();
  }
  try {
    run.measure_cases();
  } catch (const NeedsSuccessor&) {
    worker::want_successor();
    return 0;
  }
  worker::works_on(Phase::finish);
  run.measure_machine_again();
  run.gather_jobs();
  run.write();
  return run.conclude();
}

}  // namespace duet::bench
