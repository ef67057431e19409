// SPDX-License-Identifier: Apache-2.0
// bench_all: times every operation on the CPU and the GPU, side by side, and verifies what it timed.
#include <fmt/chrono.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <tuple>

#include "bench/cases.h"
#include "bench/cpu_ceilings.h"
#include "bench/journal.h"
#include "bench/overhead.h"
#include "bench/progress.h"
#include "bench/run.h"
#include "bench/run_file.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/atomic_file.h"
#include "core/process.h"

namespace duet::bench {
namespace {

constexpr int kFailed = 1, kUsage = 2, kNoDevice = 77, kInterrupted = 130;

void on_signal(int signal) {
  Run::request_stop();
  std::signal(signal, SIG_DFL);  // a second one ends the program at once; the journal stays
}

std::string now_utc(const char* format) { return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr))); }

int list(const Options& options, const Cases& cases) {
  if (options.json) {
    if (options.json_to_stdout())
      fmt::print("{}\n", listing(cases).dump(1));
    else
      write_run_file(*options.json, listing(cases));
    return 0;
  }
  for (const auto& c : cases)
    for (const Side& s : c->sides) fmt::print("{}{}\n", s.job, s.missing.empty() ? "" : "  (" + s.missing + ")");
  return 0;
}

Devices open_devices(const Options& options) {
  Devices d;
  const int threads = options.threads.value_or(static_cast<int>(std::thread::hardware_concurrency()));
  d.cpu = std::make_unique<CpuContext>(threads);
  if (!options.threads && threads > 1 && options.size >= Size::standard && options.cpu)
    d.one_thread = std::make_unique<CpuContext>(1);
  d.no_gpu = "not selected (--device cpu)";
  if (options.gpu) d.gpu = open_gpu(d.no_gpu);
  return d;
}

std::vector<Ceiling> measure_ceilings(const Options& options, Devices& devices, std::vector<std::string>& warnings) {
  const bool quick = options.size <= Size::quick;
  std::vector<Ceiling> all;
  if (options.cpu) {
    all = measure_cpu_ceilings(*devices.cpu, quick);
    if (devices.one_thread)
      for (Ceiling& c : measure_cpu_ceilings(*devices.one_thread, quick)) all.push_back(std::move(c));
  }
  try {
    if (devices.gpu && !Run::stop_is_requested())
      for (Ceiling& c : measure_gpu_ceilings(*devices.gpu, quick)) all.push_back(std::move(c));
  } catch (const std::exception& e) {  // the CPU side does not pay for a GPU that fails
    warnings.push_back(fmt::format("the GPU's ceilings could not be measured: {}", e.what()));
  }
  return all;
}

// Ceilings taken before and after, as one list: a machine can do what it did once. One that moved in between has measured its
// rows against two machines, which is said.
std::vector<Ceiling> join(std::vector<Ceiling> before, const std::vector<Ceiling>& after,
                          std::vector<std::string>& warnings) {
  constexpr double kDrift = 0.03;
  const auto identity = [](const Ceiling& c) {
    return std::tie(c.name, c.device, c.dtype, c.threads, c.footprint_bytes);
  };
  int moved = 0;
  double worst = 0;
  std::string worst_name;
  for (Ceiling& c : before) {
    const auto again =
        std::find_if(after.begin(), after.end(), [&](const Ceiling& a) { return identity(a) == identity(c); });
    if (again == after.end()) continue;
    const double change = again->value / c.value - 1;
    if (c.unit != "s" && std::abs(change) > kDrift) {
      ++moved;
      if (std::abs(change) > std::abs(worst)) {
        worst = change;
        worst_name = fmt::format("{}, {} thread(s), {:.3g} MB", c.name, c.threads,
                                 static_cast<double>(c.footprint_bytes) * 1e-6);
      }
    }
    c.value = c.unit == "s" ? std::min(c.value, again->value) : std::max(c.value, again->value);
    c.samples.insert(c.samples.end(), again->samples.begin(), again->samples.end());
  }
  if (moved > 0)
    warnings.push_back(
        fmt::format("{} of {} ceilings moved by more than {:.0f} % between start and end; most: {} ({:+.0f} %). "
                    "The higher value counts.",
                    moved, before.size(), 100 * kDrift, worst_name, 100 * worst));
  return before;
}

std::string outcome(const std::vector<Json>& jobs) {
  std::string text;
  for (const Json& j : jobs) {
    if (j["status"] == "skipped") continue;
    text += (text.empty() ? "" : ", ") + j["impl"].get<std::string>();
    if (j["status"] == "failed") {
      text += " FAILED";
      continue;
    }
    const Json& first = j["series"].front();
    text += fmt::format(" {:.4g} ms", first["summary"]["median_s"].get<double>() * 1e3);
    if (!first["roof"].is_null()) text += fmt::format(" ({:.0f} %)", 100 * first["roof"]["fraction"].get<double>());
  }
  return text.empty() ? "skipped" : text;
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Cases cases = select_cases(options);
  if (options.list) return list(options, cases);

  Devices devices = open_devices(options);
  if (!options.cpu && !devices.gpu) {
    fmt::print(stderr, "bench_all: --device gpu: {}\n", devices.no_gpu);
    return kNoDevice;
  }
  RunFacts facts{};
  facts.options = &options;
  facts.threads = devices.cpu->threads();
  facts.gpu = devices.gpu.get();
  facts.no_gpu = devices.no_gpu;
  facts.started_at = now_utc("{:%Y-%m-%dT%H:%M:%SZ}");
  facts.id = now_utc("{:%Y%m%d-%H%M%S}");
  const bool to_file = options.json && !options.json_to_stdout();
  if (to_file) {  // learn now, not after an hour, that the result cannot be written
    make_folder_of(*options.json);
    AtomicFile probe(*options.json);
    if (options.resume) Journal::require(*options.json);
  }

  Progress progress(static_cast<int>(cases.size()));
  progress.note(devices.cpu->describe() +
                (devices.gpu ? "; " + devices.gpu->describe() : "; GPU: not measured (" + devices.no_gpu + ")"));
  progress.note("measuring the machine's limits");
  facts.ceilings = measure_ceilings(options, devices, facts.warnings);
  if (options.cpu) facts.overhead_s = harness_overhead_s(*devices.cpu);

  Journal journal;
  if (Run::stop_is_requested()) return kInterrupted;
  if (to_file) journal.open(*options.json, document(facts, {}, {}), options.resume);
  if (!journal.resumed_from().empty()) facts.warnings.push_back(journal.resumed_from());

  std::vector<std::vector<Json>> jobs(cases.size());
  std::vector<Json> steps;
  std::vector<size_t> order(cases.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(options.seed));

  Run run(options, devices);
  int failed = 0;
  facts.complete = true;
  for (const size_t i : order) {
    BenchCase& c = *cases[i];
    const bool resumed =
        std::all_of(c.sides.begin(), c.sides.end(), [&](const Side& s) { return journal.finished(s.job); });
    if (resumed) {
      for (const Side& s : c.sides) {
        jobs[i].push_back(*journal.finished(s.job));
        failed += jobs[i].back()["status"] == "failed";
        if (const Json* step = journal.finished_step(s.job)) steps.push_back(*step);
      }
      progress.begin(c.name());
      progress.end("from the journal");
      continue;
    }
    progress.begin(c.name());
    try {
      const std::vector<JobRecord> records = run.measure(c);
      for (const JobRecord& r : records) {
        jobs[i].push_back(job_json(c, r));
        hold_against(facts.ceilings, jobs[i].back());
        const bool step = r.step && r.status == Status::ok;
        if (step) steps.push_back(step_json(r));
        journal.add(jobs[i].back(), step ? &steps.back() : nullptr);
        if (r.status == Status::failed) {
          ++failed;
          progress.note(fmt::format("FAILED {}: {}\n  again: {}", r.name, r.reason, r.repro));
        }
      }
      progress.end(outcome(jobs[i]));
    } catch (const Interrupted&) {
      facts.complete = false;
      break;
    } catch (const std::exception& e) {  // of drawing inputs, of the reference, of memory: it costs this case alone
      jobs[i].clear();
      for (const Side& s : c.sides) jobs[i].push_back(failed_json(c, s, e.what()));
      ++failed;
      progress.note(fmt::format("FAILED {}: {}", c.name(), e.what()));
      progress.end("failed");
    }
  }
  for (size_t i = 0; i < cases.size(); ++i)
    if (jobs[i].empty())
      for (const Side& s : cases[i]->sides) jobs[i].push_back(skipped_json(*cases[i], s, "interrupted before it ran"));

  if (facts.complete && options.size != Size::smoke)
    facts.ceilings =
        join(std::move(facts.ceilings), measure_ceilings(options, devices, facts.warnings), facts.warnings);
  facts.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<Json> flat;
  for (auto& of_case : jobs)
    for (Json& j : of_case) {
      if (!journal.finished(j["name"])) hold_against(facts.ceilings, j);  // rows of an earlier process keep its roofs
      flat.push_back(std::move(j));
    }
  if (options.json) {
    const Json whole = document(facts, flat, steps);
    if (to_file)
      write_run_file(*options.json, whole);
    else
      fmt::print("{}\n", whole.dump(1));
    if (facts.complete) journal.remove();
  }
  for (const std::string& w : facts.warnings) progress.note("warning: " + w);
  progress.note(fmt::format("{} jobs, {} failed, {:.0f} s{}", flat.size(), failed, facts.wall_s,
                            facts.complete ? "" : "; interrupted, --resume goes on"));
  if (!facts.complete) return kInterrupted;
  if (failed) return kFailed;
  const bool measured = std::any_of(flat.begin(), flat.end(), [](const Json& j) { return j["status"] == "ok"; });
  return measured ? 0 : kNoDevice;
}

}  // namespace
}  // namespace duet::bench

int main(int argc, char** argv) {
  using namespace duet::bench;
  duet::prepare_process(argc, argv);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  Options options;
  try {
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
