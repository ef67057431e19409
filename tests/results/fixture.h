// SPDX-License-Identifier: Apache-2.0
// A synthetic run for the tests of results/, reports/ and bench/. No number in it is a measurement.
#pragma once
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "results/job_name.h"
#include "results/rules.h"
#include "results/run_file.h"

namespace duet::results::testing {

namespace fs = std::filesystem;

// Medians spread by 1 % round `time_s`, five repetitions unless said otherwise.
inline Series make_series(Scope scope, double time_s, double fraction, int threads = 1, Cache cache = Cache::warm,
                          int repetitions = 5) {
  Series s;
  s.scope = scope;
  s.cache = cache;
  s.threads = threads;
  s.iterations = 3;
  for (int i = 0; i < repetitions; ++i) {
    const double t = time_s * (1 + 0.005 * (i - repetitions / 2));
    s.repetitions.push_back({.order = i,
                             .samples_s = {t, t, t},
                             .roof_s = {fraction * t, fraction * t, fraction * t},
                             .wall_s = 0.2,
                             .foreign_cores = 0.01,
                             .sm_clock_mhz = {},
                             .memory_clock_mhz = {},
                             .throttled_by = {},
                             .flags = {}});
  }
  s.summary = summarise(s.repetitions);
  s.foreign_cores = 0.01;
  s.roof = Roof{.bound = Bound::memory,
                .ceiling = threads > 1 ? "cpu.copy" : "gpu.copy",
                .value = 1e10,
                .fraction = fraction,
                .lo = 0.995 * fraction,
                .hi = 1.005 * fraction,
                .interval = "min-max of paired repetitions",
                .source = RoofSource::adjacent,
                .quiet = true};
  return s;
}

// Another share of the roof, with its interval.
inline void set_fraction(Series& series, double fraction) {
  series.roof->fraction = fraction;
  series.roof->lo = 0.995 * fraction;
  series.roof->hi = 1.005 * fraction;
}

// Flags and verdict as the rules set them, after a test has changed a job.
inline void decide(Job& job) {
  for (Series& s : job.series) set_flags(s, job.device, 0);
  set_verdict(job);
}

// "softmax/cpu.tuned/f32/rows:64"; its case is the name without the implementation. A step's op is "step/<model>".
inline Job make_job(const std::string& name, std::vector<Series> series) {
  const size_t op = op_of(name).size();
  const size_t impl = name.find('/', op + 1), dtype = name.find('/', impl + 1);
  Job job;
  job.name = name;
  job.op = name.substr(0, op);
  job.case_name = job.op + name.substr(impl);
  job.family = "norm";
  job.formula = "y = f(x)";
  job.why = "a published shape";
  job.impl = name.substr(op + 1, impl - op - 1);
  job.device = job.impl.starts_with("cuda") || job.impl.starts_with("gpu") ? Device::gpu : Device::cpu;
  job.dtype = name.substr(impl + 1, dtype - impl - 1);
  job.params = {{"rows", int64_t{64}}};
  job.flops = 1e6;
  job.bytes = job.footprint_bytes = 1000000;
  job.pattern = "copy";
  job.status = Status::ok;
  job.check = Check{.max_error_ratio = 0.25, .slices = 24, .elements = 4096, .coverage = "reference"};
  job.plan = Plan{.threads = 4, .isa = "avx2", .algorithm = {}, .workspace_bytes = 512, .create_s = 1e-3};
  job.series = std::move(series);
  decide(job);
  return job;
}

inline Job make_missing(const std::string& name, Status status, const std::string& reason) {
  Job job = make_job(name, {});
  job.status = status;
  job.comparable = false;
  job.trust = Trust::unusable;
  job.reason = reason;
  job.check.reset();
  job.plan.reset();
  return job;
}

// A training step whose call takes step_s. residual_s follows from the times of its nodes.
inline Job make_step(const std::string& name, double step_s, Amounts nodes_s, Amounts phases_s = {},
                     int64_t samples = 8) {
  Job job = make_job(name, {make_series(Scope::call, step_s, 0.5, 4)});
  Step step{.phases_s = std::move(phases_s),
            .nodes_s = std::move(nodes_s),
            .residual_s = step_s,
            .peak_memory_bytes = 4096,
            .samples = samples,
            .tokens = {},
            .implementations = {{"gemm", "cpu.openblas"}}};
  for (const auto& [op, time_s] : step.nodes_s) step.residual_s -= time_s;
  job.step = std::move(step);
  return job;
}

inline Ceiling make_ceiling(const std::string& name, double value, const std::string& unit, int64_t footprint_bytes = 0,
                            int threads = 1) {
  Ceiling c;
  c.name = name;
  c.device = name.substr(0, 3);
  c.pattern = unit == "B/s" ? name.substr(4) : "";
  c.dtype = unit == "B/s" ? "" : name.substr(name.rfind('.') + 1);
  c.threads = threads;
  c.footprint_bytes = footprint_bytes;
  c.value = value;
  c.unit = unit;
  c.samples = {value, 0.9 * value};
  return c;
}

inline Run make_run(std::vector<Job> jobs) {
  Run run;
  run.context = {.date = "2026-01-01T00:00:00Z",
                 .host_name = "host",
                 .executable = "bench_all",
                 .num_cpus = 4,
                 .mhz_per_cpu = 2000,
                 .cpu_scaling_enabled = false,
                 .caches = {{"Data", 1, 32768, 1}},
                 .load_avg = {0.5, 0.25, 0.125},
                 .library_build_type = "release"};
  run.invocation.id = "r1";
  run.invocation.started_at = "2026-01-01T00:00:00Z";
  run.invocation.argv = {"bench_all"};
  run.invocation.selection.scale = "quick";
  run.invocation.selection.budget_s = 0.1;
  run.invocation.threads = 4;
  run.invocation.complete = true;
  run.build = {.git_sha = "abc",
               .git_dirty = false,
               .type = "Release",
               .built_at = "2026-01-01T00:00:00Z",
               .compiler = "g++",
               .flags = "-O3",
               .cuda = {},
               .cuda_architectures = {},
               .libraries = {{"openblas", "0.3"}}};
  run.machine = {.fingerprint = "f",
                 .cpu = {"a CPU", 4, "AVX2", {"avx2", "fma"}},
                 .ram_bytes = int64_t{1} << 34,
                 .kernel = "6.1.0",
                 .virtual_machine = false,
                 .gpu = Gpu{"a GPU", "90", int64_t{1} << 36, 50 << 20, "580", "13.0", "13.0", "9.1"}};
  run.state = {"performance", "on", "madvise", "2", "on", "0-3", std::nullopt, 4};
  run.ceilings = {
      make_ceiling("cpu.copy", 2e10, "B/s", 1000000, 4),   make_ceiling("cpu.copy", 1e10, "B/s", 1000000000, 4),
      make_ceiling("cpu.copy", 5e9, "B/s", 1000000000, 1), make_ceiling("cpu.fma.f32", 1e11, "FLOP/s", 0, 4),
      make_ceiling("gpu.copy", 1e12, "B/s", 1000000000),   make_ceiling("gpu.fma.f32", 1e13, "FLOP/s")};
  run.jobs = std::move(jobs);
  return run;
}

// One case on both sides: 1 ms on 4 CPU threads, 3 ms on one; GPU kernel 10 us, call 20 us, end to end 2 ms.
inline std::vector<Job> softmax_pair() {
  std::vector<Job> jobs{make_job("softmax/cpu.tuned/f32/rows:64",
                                 {make_series(Scope::call, 1e-3, 0.8, 4), make_series(Scope::call, 3e-3, 0.9, 1)}),
                        make_job("softmax/cuda.tuned/f32/rows:64",
                                 {make_series(Scope::kernel, 1e-5, 0.9), make_series(Scope::call, 2e-5, 0.45),
                                  make_series(Scope::end_to_end, 2e-3, 0.005)})};
  jobs[1].series[2].roof.reset();  // that scope is limited by the link between host and device
  decide(jobs[1]);
  return jobs;
}

// 2.5 s of 100 applications a second; bytes and energies as given, the others unavailable.
inline Counters make_counters(std::optional<double> bytes, std::optional<double> cpu_j, std::optional<double> gpu_j,
                              Scope scope = Scope::call, int threads = 4) {
  Counters c{.scope = scope, .cache = Cache::warm, .threads = threads, .window = {}, .readings = {}};
  const auto add = [&](Quantity quantity, std::optional<double> value, const char* source, const char* reason) {
    c.readings.push_back({quantity, value, value ? source : "", value ? "" : reason});
    if (value) c.window = CounterWindow{.applications = 250, .time_s = 2.5, .foreign_cores = 0.01};
  };
  add(Quantity::bytes, bytes, "memory controllers", "no counter of the last cache");
  add(Quantity::cpu_energy_j, cpu_j, "RAPL package", "the kernel shows no RAPL");
  add(Quantity::gpu_energy_j, gpu_j, "NVML", "no NVML");
  return c;
}

// A folder of its own, removed at the end.
class Scratch {
 public:
  Scratch() {
    static std::atomic<int> count = 0;
    folder_ = fs::temp_directory_path() / ("duet_tests_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(folder_);
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(folder_); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

 private:
  fs::path folder_;
};

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Run load(const std::string& text) {
  const Scratch scratch;
  return load_run(scratch.write("run.json", text));
}

inline size_t count_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace duet::results::testing
