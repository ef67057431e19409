// SPDX-License-Identifier: Apache-2.0
// A run file as plain structs: what `bench_all --json` measured, checked on the way in (run.schema.json).
// Times are seconds, rates per second, GB is 1e9 bytes. An optional is empty where the file has null or nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace duet::reports {

inline constexpr int kSchema = 1;  // newer files are refused: an older reader might misread them in silence

enum class Device { cpu, gpu };
enum class Status { ok, skipped, failed };
enum class Scope { kernel, call, end_to_end };
enum class Cache { warm, cold, rotating };
enum class Bound { memory, compute };

std::string to_text(Device);  // "CPU", "GPU"
std::string to_text(Status);
std::string to_text(Scope);  // "kernel", "call", "end to end"
std::string to_text(Cache);
std::string to_text(Bound);

using Facts = std::vector<std::pair<std::string, std::string>>;  // in the file's order
using Amounts = std::vector<std::pair<std::string, double>>;

struct Repetition {
  std::vector<double> samples_s;
  double foreign_cpu = 0;
  std::vector<std::string> flags;
  bool disturbed() const;  // contended, throttled, clock; a clean retry is not
};

struct Summary {
  double median_s = 0, lo_s = 0, hi_s = 0, min_s = 0;
  std::string interval;  // what lo_s and hi_s are
};

// The time that the ceiling allows, divided by the time measured.
struct Roof {
  Bound bound = Bound::memory;
  std::string ceiling;
  std::optional<double> value;
  double fraction = 0;
};

struct Series {
  Scope scope = Scope::call;
  Cache cache = Cache::warm;
  int64_t threads = 1, batch = 1, iterations = 1;
  std::vector<Repetition> repetitions;
  Summary summary;
  std::optional<double> first_call_s;
  std::optional<Roof> roof;  // empty where no ceiling matches
  std::vector<std::string> flags;
  bool has_flag(const std::string& flag) const;
};

struct Check {
  std::optional<double> max_error_ratio;  // largest error / its bound
  std::optional<int64_t> slices, elements;
};

struct PlanFacts {
  std::string isa, algorithm;
  std::optional<int64_t> threads;
  std::optional<double> workspace_bytes, create_s, first_call_s;
};

struct Job {
  std::string name, op, case_name, impl, dtype, family, formula, reason;
  Device device = Device::cpu;
  Status status = Status::ok;
  double flops = 0, bytes = 0;
  std::optional<double> footprint_bytes;
  std::optional<Check> check;  // empty where nothing was compared
  PlanFacts plan;
  Facts params;
  std::vector<Series> series;
};

struct Ceiling {
  std::string name, dtype, pattern, unit;
  Device device = Device::cpu;
  std::optional<int64_t> threads;
  std::optional<double> footprint_bytes;
  double value = 0;
};

struct Step {
  std::string job, model;
  std::optional<double> step_s, memory_peak_bytes;  // step_s: else the call series of the job
  std::optional<double> samples, tokens;            // of one step
  double residual_s = 0;
  Amounts phases_s, parts_s;
  Facts implementations;
};

struct SweepPoint {
  double size = 0;
  std::optional<double> cpu_s, gpu_call_s, gpu_end_to_end_s;
  std::string cpu_impl = {}, gpu_impl = {};  // whose times they are
};

struct Sweep {
  std::string op, size_name, dtype;
  Facts fixed;                     // the other parameters
  std::vector<SweepPoint> points;  // ascending sizes
};

struct Run {
  std::string file;
  std::string id, started_at, note;
  bool complete = false;
  std::vector<std::string> warnings;  // of the writer, and of reading the file
  std::string git_sha, build_type, compiler, cuda;
  bool git_dirty = false;
  Facts libraries;
  std::string cpu_name, cpu_cores, cpu_isa;
  bool has_gpu = false;  // a GPU in the machine's description, measured or not
  std::string no_gpu;    // why nothing could be measured on one
  std::string gpu_name, gpu_sm, governor;
  std::vector<std::pair<std::string, Facts>> environment;  // every member of context, run, build, machine, state
  std::vector<Ceiling> ceilings;
  std::vector<Job> jobs;
  std::vector<Step> steps;
  std::vector<Sweep> sweeps;
};

// One line: file, member, what is wrong and what is allowed.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads a run file, or the journal of an unfinished run (JSON lines: {"duet_journal": 1, "document": {...}}, then one
// {"job": {...}} per finished job; a last line cut by a crash is dropped with a warning). All or nothing.
// Throws RunError.
Run load_run(const std::string& path);

}  // namespace duet::reports
