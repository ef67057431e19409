// SPDX-License-Identifier: Apache-2.0
// The run file as types. bench_all fills a Run and writes it (run_file.h); reports and the command line read it back.
// Start reading at the end, with Run.
//
// Each type lists its members once, in its function `members(value, field)`, which calls field(name, member, what it
// may hold, meaning) for each. The list serves writing and reading JSON, the journal, the tables of facts in a report
// and the published schema (run.schema.json, which a test compares with the lists). The order is that of the file.
//
// Times are seconds, rates are per second, GB is 1e9 bytes. An empty optional is null in the file.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/ceiling.h"

namespace duet::results {

// What a member may hold beyond what its type says. For a list and for an object the rule is that of its values.
enum class Allow : uint8_t { any, not_empty, not_negative, at_least_one, positive };

struct Allowed {
  Allow rule = Allow::any;
  std::span<const char* const> values = {};  // of a string: one of these; empty: any
  constexpr Allowed(Allow r) : rule(r) {}
  template <size_t N>
  constexpr Allowed(const char* const (&v)[N]) : values(v) {}
};

enum class Device : uint8_t { cpu, gpu };
enum class Status : uint8_t { ok, skipped, failed };
enum class Scope : uint8_t { kernel, call, end_to_end, overlapped };
enum class Cache : uint8_t { warm, cold };
enum class Bound : uint8_t { memory, compute };
// Where a roof comes from: a probe that ran between the samples of the series, or the ceilings of the run.
enum class RoofSource : uint8_t { adjacent, run };
// How far a run, or a row of it, can be relied on. disturbed: measured while something else changed the speed of the
// machine; unusable: for a ratio.
enum class Trust : uint8_t { trustworthy, disturbed, unusable };
// What hardware counters measure of one application. Energies: of the CPU's packages, its memory, the GPU's board.
enum class Quantity : uint8_t { instructions, cycles, bytes, cpu_energy_j, dram_energy_j, gpu_energy_j };

// Their names in the file, in the order of their values.
constexpr std::array<const char*, 2> names_of(Device) { return {"cpu", "gpu"}; }
constexpr std::array<const char*, 3> names_of(Status) { return {"ok", "skipped", "failed"}; }
constexpr std::array<const char*, 4> names_of(Scope) { return {"kernel", "call", "end_to_end", "overlapped"}; }
// Whether the link between host and device limits it, for which there is no roof.
constexpr bool has_copies(Scope scope) { return scope == Scope::end_to_end || scope == Scope::overlapped; }
constexpr std::array<const char*, 2> names_of(Cache) { return {"warm", "cold"}; }
constexpr std::array<const char*, 2> names_of(Bound) { return {"memory", "compute"}; }
constexpr std::array<const char*, 2> names_of(RoofSource) { return {"adjacent", "run"}; }
constexpr std::array<const char*, 3> names_of(Trust) { return {"trustworthy", "disturbed", "unusable for ratios"}; }
constexpr std::array<const char*, 6> names_of(Quantity) {
  return {"instructions", "cycles", "bytes", "cpu_energy_j", "dram_energy_j", "gpu_energy_j"};
}
template <class Enum>
constexpr const char* name_of(Enum value) {
  return names_of(value)[static_cast<size_t>(value)];
}

// JSON objects whose names are not fixed, in the file's order.
using Value = std::variant<int64_t, bool, double, std::string>;
using Params = std::vector<std::pair<std::string, Value>>;
using Facts = std::vector<std::pair<std::string, std::string>>;
using Amounts = std::vector<std::pair<std::string, double>>;

// --- a job

struct Repetition {
  int64_t order = 0, process = 0;
  std::vector<double> samples_s, roof_s;
  double wall_s = 0, foreign_cores = 0, steal_share = 0;
  std::optional<double> sm_clock_mhz, memory_clock_mhz;
  std::optional<std::string> throttled_by;
  std::vector<std::string> flags;

  static void members(auto& r, auto&& field) {
    field("order", r.order, Allow::not_negative, "position among all repetitions of the run");
    field("process", r.process, Allow::not_negative, "which of the run's processes took it (--processes), from 0");
    field("samples_s", r.samples_s, Allow::positive, "seconds of one application, one value a sample; at least one");
    field("roof_s", r.roof_s, Allow::positive,
          "for each sample: seconds that the roof allowed for one application, by probes before and after it; empty "
          "without a probe");
    field("wall_s", r.wall_s, Allow::not_negative, "of the whole repetition: samples, probes and what lies between");
    field("foreign_cores", r.foreign_cores, Allow::not_negative, "CPU cores that other processes used meanwhile");
    field("steal_share", r.steal_share, Allow::not_negative, "of all CPU time, taken by the hypervisor meanwhile");
    field("sm_clock_mhz", r.sm_clock_mhz, Allow::positive, "clock of the GPU at its end; null where it is not known");
    field("memory_clock_mhz", r.memory_clock_mhz, Allow::positive, "clock of its memory then; null where not known");
    field("throttled_by", r.throttled_by, Allow::not_empty,
          "why the GPU had lowered its clock then, as NVML tells; null where it had not");
    field("flags", r.flags, Allow::not_empty,
          "contended: other processes ran; slowed: the CPUs were slower than they had been; throttled: the GPU lowered "
          "its clock; retried: taken again for one of these. All but retried mark it as disturbed");
  }
};

struct Summary {
  double median_s = 0, lo_s = 0, hi_s = 0, min_s = 0;
  std::string interval;

  static void members(auto& s, auto&& field) {
    field("median_s", s.median_s, Allow::positive, "median of the medians of the repetitions that count");
    field("lo_s", s.lo_s, Allow::positive, "lower end of the interval");
    field("hi_s", s.hi_s, Allow::positive, "upper end of the interval");
    field("interval", s.interval, Allow::not_empty, "what lo_s and hi_s are");
    field("min_s", s.min_s, Allow::positive, "smallest sample");
  }
};

// The time that the roof allows, divided by the time measured.
struct Roof {
  Bound bound = Bound::memory;
  std::string ceiling;
  double value = 0;
  double fraction = 0, lo = 0, hi = 0;
  std::string interval;
  RoofSource source = RoofSource::run;
  bool quiet = false;

  static void members(auto& r, auto&& field) {
    field("bound", r.bound, Allow::any, "what takes longer at the device's ceilings");
    field("ceiling", r.ceiling, Allow::not_empty, "name of the ceiling");
    field("value", r.value, Allow::positive, "its value, in B/s or FLOP/s");
    field("fraction", r.fraction, Allow::positive,
          "time that it allows / time measured; 1: as fast as the device goes. Median over the repetitions that count");
    field("lo", r.lo, Allow::positive, "lower end of the interval of fraction");
    field("hi", r.hi, Allow::positive, "upper end of the interval of fraction");
    field("interval", r.interval, Allow::not_empty, "what lo and hi are");
    field("source", r.source, Allow::any,
          "adjacent: a probe of the same pattern, footprint, threads and cache state ran between the samples; run: the "
          "ceilings of the run");
    field("quiet", r.quiet, Allow::any,
          "whether the adjacent probe may accuse the row: it was steady, nothing else ran meanwhile, the footprint is "
          "not about that of the last cache, and on a CPU the run's ceiling of memory is below the row, too");
  }
};

struct Series {
  Scope scope = Scope::call;
  Cache cache = Cache::warm;
  int64_t threads = 1, batch = 1, iterations = 1;
  double first_call_s = 0;
  std::optional<double> foreign_cores;
  std::vector<Repetition> repetitions;
  Summary summary;
  std::optional<Roof> roof;
  std::vector<std::string> flags;
  bool has_flag(const std::string& flag) const;

  static void members(auto& s, auto&& field) {
    field("scope", s.scope, Allow::any,
          "kernel: device time with resident data; call: wall time of launch and wait; end_to_end: with both copies; "
          "overlapped: of a step on a GPU, end_to_end with the copy of the next batch beside the step");
    field("cache", s.cache, Allow::any, "warm, or cold: everything evicted before each sample");
    field("threads", s.threads, Allow::at_least_one, "of the CPU; 1 on a GPU");
    field("batch", s.batch, Allow::at_least_one, "applications in a sample, which is divided by it");
    field("iterations", s.iterations, Allow::at_least_one, "samples of a repetition");
    field("first_call_s", s.first_call_s, Allow::not_negative, "the very first call");
    field("foreign_cores", s.foreign_cores, Allow::not_negative,
          "CPU cores that other processes used, over all repetitions together, or where those are short over all work "
          "on the case; null: too short to be checked");
    field("repetitions", s.repetitions, Allow::any, "at least one");
    field("summary", s.summary, Allow::any, "over the repetitions that count");
    field("roof", s.roof, Allow::any, "null where no ceiling matches");
    field("flags", s.flags, Allow::not_empty,
          "suspect: over its roof, no result; weak_cpu: far below it, or own code of which a library is faster by more "
          "than 10 %; floor: nearly as short as an empty kernel, or as a call of one; "
          "disturbed: too few undisturbed repetitions, all counted; unchecked: too short to see other processes; "
          "restored, synchronises: how samples were taken");
  }
};

struct Check {
  std::optional<double> max_error_ratio;
  int64_t slices = 0, elements = 0;
  std::string coverage;
  std::optional<std::string> sampled_reason = {};

  static void members(auto& c, auto&& field) {
    field("max_error_ratio", c.max_error_ratio, Allow::not_negative,
          "largest error / its bound; null where an element is not a number");
    field("slices", c.slices, Allow::not_negative, "independent parts of the answer that were compared");
    field("elements", c.elements, Allow::not_negative, "output elements that were compared with the reference");
    field("coverage", c.coverage, Allow::any,
          "how every element was compared: reference, projections, or the name of a second implementation; op by op: "
          "each op of a step so; sampled: not every element was");
    field("sampled_reason", c.sampled_reason, Allow::not_empty, "why not every element was; null where it was");
  }
};

struct Plan {
  int64_t threads = 1;
  std::string isa, algorithm;
  int64_t workspace_bytes = 0;
  double create_s = 0;

  static void members(auto& p, auto&& field) {
    field("threads", p.threads, Allow::at_least_one, "of the series with most threads");
    field("isa", p.isa, Allow::any, "instruction set that was chosen on the CPU; empty on a GPU");
    field("algorithm", p.algorithm, Allow::any, "as the implementation calls it");
    field("workspace_bytes", p.workspace_bytes, Allow::not_negative, "memory that the plan needs while it runs");
    field("create_s", p.create_s, Allow::not_negative, "time to make the plan");
  }
};

// What a training step has beyond the series of its job.
struct Step {
  Amounts phases_s, nodes_s;
  double residual_s = 0;
  int64_t peak_memory_bytes = 0, samples = 0;
  std::optional<int64_t> tokens;
  Facts implementations;
  std::optional<int64_t> upload_bytes = {}, download_bytes = {};

  static void members(auto& s, auto&& field) {
    field("phases_s", s.phases_s, Allow::not_negative, "each phase, timed by itself");
    field("nodes_s", s.nodes_s, Allow::not_negative, "nodes of the tape, each timed by itself, added up by op");
    field("residual_s", s.residual_s, Allow::any,
          "call of the whole step minus the sum of nodes_s; negative where the step overlaps its nodes");
    field("peak_memory_bytes", s.peak_memory_bytes, Allow::not_negative, "everything that the planned step holds");
    field("samples", s.samples, Allow::not_negative, "of one step");
    field("tokens", s.tokens, Allow::not_negative, "of one step; null where the model takes none");
    field("implementations", s.implementations, Allow::any, "op: what was chosen for it");
    field("upload_bytes", s.upload_bytes, Allow::not_negative,
          "what a host would upload before a step on a GPU: its inputs; absent in older files");
    field("download_bytes", s.download_bytes, Allow::not_negative,
          "what it would read after one: the loss; absent in older files");
  }
};

// What a counter measured, or why it could not.
struct Reading {
  Quantity quantity = Quantity::bytes;
  std::optional<double> value;
  std::string source, unavailable_reason;

  static void members(auto& r, auto&& field) {
    field("quantity", r.quantity, Allow::any, "bytes: moved from and to memory; energies are in joules");
    field("value", r.value, Allow::positive, "of one application; null where it is unavailable");
    field("source", r.source, Allow::any, "the counter, and what it leaves out; empty where it is unavailable");
    field("unavailable_reason", r.unavailable_reason, Allow::any, "empty where there is a value");
  }
};

// The applications that were counted, one after the other, without a clock between them.
struct CounterWindow {
  int64_t applications = 1;
  double time_s = 0, foreign_cores = 0;

  static void members(auto& w, auto&& field) {
    field("applications", w.applications, Allow::at_least_one, "in the window");
    field("time_s", w.time_s, Allow::positive, "of the window; at least 2");
    field("foreign_cores", w.foreign_cores, Allow::not_negative,
          "CPU cores that other processes used meanwhile: energies and memory controllers count these, too");
  }
};

// Counters of a job (bench_all --counters), taken in a pass of their own, in the scope and cache state of one series.
struct Counters {
  Scope scope = Scope::call;
  Cache cache = Cache::warm;
  int64_t threads = 1;
  std::optional<CounterWindow> window;
  std::vector<Reading> readings;
  std::optional<double> value_of(Quantity quantity) const;  // empty where it was not measured
  std::optional<double> watts_of(Quantity energy) const;    // on average over the window

  static void members(auto& c, auto&& field) {
    field("scope", c.scope, Allow::any, "of the applications");
    field("cache", c.cache, Allow::any, "when the window began");
    field("threads", c.threads, Allow::at_least_one, "of the CPU; 1 on a GPU");
    field("window", c.window, Allow::any, "null where no counter was available, so that none ran");
    field("readings", c.readings, Allow::any, "one for each quantity that the device could have");
  }
};

// What is known of a job before it runs.
struct JobDescription {
  std::string name, op, case_name, family, formula, why, impl;
  Device device = Device::cpu;
  std::string dtype;
  Params params;
  double flops = 0;
  int64_t bytes = 0, footprint_bytes = 0;
  std::string pattern;

  static void members(auto& d, auto&& field) {
    field("name", d.name, Allow::not_empty, "unique: op/impl/dtype/parameters");
    field("op", d.op, Allow::not_empty, "what is computed");
    field("case", d.case_name, Allow::not_empty, "equal for all implementations of one problem");
    field("family", d.family, Allow::any, "group of ops in reports");
    field("formula", d.formula, Allow::any, "of the op");
    field("why", d.why, Allow::any, "why this shape is measured, or where it was published");
    field("impl", d.impl, Allow::not_empty, "implementation: cpu.tuned, cuda.cublas, ...");
    field("device", d.device, Allow::any, "where it runs");
    field("dtype", d.dtype, Allow::any, "element type, and the math mode where that is not IEEE: f32, bf16, f32/tf32");
    field("params", d.params, Allow::any, "dimensions, and other attributes that are not default");
    field("flops", d.flops, Allow::not_negative, "operations of one application; a multiply-add counts 2");
    field("bytes", d.bytes, Allow::not_negative, "compulsory traffic of one application");
    field("footprint_bytes", d.footprint_bytes, Allow::not_negative, "memory of all tensors");
    field("pattern", d.pattern, Allow::any,
          "bandwidth pattern that moves memory likewise; of two joined by | the faster");
  }
};

struct Job : JobDescription {
  std::string machine;  // in a report of several runs, who measured it; not in the file
  Status status = Status::skipped;
  bool comparable = false;
  Trust trust = Trust::unusable;
  std::string reason, repro;
  std::optional<Check> check;
  std::optional<Plan> plan;
  std::vector<Series> series;
  std::optional<Step> step;
  std::optional<Counters> counters = {};

  static void members(auto& j, auto&& field) {
    JobDescription::members(j, field);
    field("status", j.status, Allow::any, "skipped: not built here, not supported, no device; failed: wrong or broken");
    field("comparable", j.comparable, Allow::any, "the verdict: whether the job may stand in a ratio");
    field("trust", j.trust, Allow::any,
          "disturbed: comparable, but its times were taken while something else ran; unusable for ratios: not "
          "comparable");
    field("reason", j.reason, Allow::any, "why it is not comparable; empty where it is");
    field("repro", j.repro, Allow::any, "of a failed job: a command that shows the failure again");
    field("check", j.check, Allow::any, "null where nothing was compared");
    field("plan", j.plan, Allow::any, "null where none was made");
    field("series", j.series, Allow::any, "at least one where the status is ok, else none");
    field("step", j.step, Allow::any, "null unless the job is a training step that ran");
    field("counters", j.counters, Allow::any, "null unless the job ran with --counters; absent in older files");
  }
};

// An entry of `bench_all --list --json`.
struct ListedJob : JobDescription {
  std::string unavailable_reason;

  static void members(auto& j, auto&& field) {
    JobDescription::members(j, field);
    field("unavailable_reason", j.unavailable_reason, Allow::any, "why it is not in this build; empty where it is");
  }
};

// --- cases over a size

struct SweepPoint {
  int64_t size = 0;
  std::optional<double> cpu_s, gpu_call_s, gpu_end_to_end_s;
  std::string cpu_impl = {}, gpu_impl = {};

  static void members(auto& p, auto&& field) {
    field("size", p.size, Allow::at_least_one, "value of the parameters that vary");
    field("cpu_s", p.cpu_s, Allow::positive, "call on the CPU");
    field("gpu_call_s", p.gpu_call_s, Allow::positive, "call on the GPU, data resident");
    field("gpu_end_to_end_s", p.gpu_end_to_end_s, Allow::positive, "the same with both copies");
    field("cpu_impl", p.cpu_impl, Allow::any, "whose time it is");
    field("gpu_impl", p.gpu_impl, Allow::any, "whose times they are");
  }
};

// Cases of an op that differ in one size alone, or in several that are equal in each.
struct Sweep {
  std::string op, dtype, size_name;
  Params fixed;
  std::vector<SweepPoint> points;

  static void members(auto& s, auto&& field) {
    field("op", s.op, Allow::not_empty, "");
    field("dtype", s.dtype, Allow::any, "");
    field("size_name", s.size_name, Allow::not_empty, "parameters that vary: rows, batch, m=n=k");
    field("fixed", s.fixed, Allow::any, "the other parameters");
    field("points", s.points, Allow::any,
          "by ascending size; times are those of the fastest comparable job of each side");
  }
};

// --- the run

struct Selection {
  std::string scale, filter, exclude;
  std::vector<std::string> cases, implementations, dtypes, scopes;
  bool cpu = true, gpu = true;
  int64_t repetitions = 1;
  double budget_s = 0;

  static void members(auto& s, auto&& field) {
    field("scale", s.scale, Allow::any, "preset: smoke, quick, standard, full");
    field("filter", s.filter, Allow::any, "regular expression over job names");
    field("exclude", s.exclude, Allow::any, "regular expression over the names of jobs that are left out");
    field("cases", s.cases, Allow::any, "named in place of the preset's; empty: those of the preset");
    field("implementations", s.implementations, Allow::any, "empty: all");
    field("dtypes", s.dtypes, Allow::any, "empty: all");
    field("scopes", s.scopes, Allow::any, "empty: all");
    field("cpu", s.cpu, Allow::any, "whether the CPU side was selected");
    field("gpu", s.gpu, Allow::any, "whether the GPU side was selected");
    field("repetitions", s.repetitions, Allow::at_least_one, "of each series");
    field("budget_s", s.budget_s, Allow::positive, "seconds of samples in a repetition");
  }
};

// How bench_all was called, and how the run went.
struct Invocation {
  std::string id, started_at;
  uint64_t seed = 1;
  std::vector<std::string> argv;
  Selection selection;
  int64_t threads = 1, processes = 1;
  double wall_s = 0, harness_overhead_s = 0;
  std::optional<Amounts> phases_s = {};
  bool complete = false;
  Trust trust = Trust::trustworthy;
  std::vector<std::string> doubts, warnings;
  std::string no_gpu;

  static void members(auto& i, auto&& field) {
    field("id", i.id, Allow::any, "");
    field("started_at", i.started_at, Allow::any, "UTC, ISO 8601");
    field("seed", i.seed, Allow::any, "of inputs, sampled slices and the order of cases");
    field("argv", i.argv, Allow::any, "");
    field("selection", i.selection, Allow::any, "what decides which jobs run, and how");
    field("threads", i.threads, Allow::at_least_one, "of the CPU side");
    field("processes", i.processes, Allow::at_least_one,
          "fresh processes that each took all repetitions (--processes)");
    field("wall_s", i.wall_s, Allow::not_negative, "of the whole run");
    field("phases_s", i.phases_s, Allow::not_negative,
          "how wall_s divides: what the program was busy with; absent in older files");
    field("harness_overhead_s", i.harness_overhead_s, Allow::not_negative, "what timing adds to an empty job");
    field("complete", i.complete, Allow::any, "false until every job of the run has finished");
    field("trust", i.trust, Allow::any, "of the run as a whole");
    field("doubts", i.doubts, Allow::any, "why it is not trustworthy; empty where it is");
    field("warnings", i.warnings, Allow::any, "shown at the top of a report");
    field("no_gpu", i.no_gpu, Allow::any, "why nothing could be measured on a GPU; empty where it could");
  }
};

struct Build {
  std::string git_sha;
  bool git_dirty = false;
  std::string type, built_at, compiler, flags, cuda, cuda_architectures;
  Facts libraries;

  static void members(auto& b, auto&& field) {
    field("git_sha", b.git_sha, Allow::any, "");
    field("git_dirty", b.git_dirty, Allow::any, "a tracked file differed from that commit");
    field("type", b.type, Allow::any, "CMake's build type");
    field("built_at", b.built_at, Allow::any, "of the program's file: tells builds of uncommitted changes apart");
    field("compiler", b.compiler, Allow::any, "");
    field("flags", b.flags, Allow::any, "");
    field("cuda", b.cuda, Allow::any, "CUDA compiler; empty where there is none");
    field("cuda_architectures", b.cuda_architectures, Allow::any, "");
    field("libraries", b.libraries, Allow::any, "name: version and variant");
  }
};

struct Cpu {
  std::string name;
  int64_t cores = 1;
  std::string isa;
  std::vector<std::string> extensions;

  static void members(auto& c, auto&& field) {
    field("name", c.name, Allow::any, "model");
    field("cores", c.cores, Allow::at_least_one, "logical CPUs online");
    field("isa", c.isa, Allow::any, "Highway's target that was chosen");
    field("extensions", c.extensions, Allow::any, "by their names in /proc/cpuinfo, those that matter here");
  }
};

struct Gpu {
  std::string name, sm;
  int64_t memory_bytes = 0, l2_bytes = 0;
  std::string driver, runtime, cublas, cudnn;

  static void members(auto& g, auto&& field) {
    field("name", g.name, Allow::any, "");
    field("sm", g.sm, Allow::any, "compute capability");
    field("memory_bytes", g.memory_bytes, Allow::not_negative, "");
    field("l2_bytes", g.l2_bytes, Allow::not_negative, "second-level cache");
    field("driver", g.driver, Allow::any, "");
    field("runtime", g.runtime, Allow::any, "of CUDA");
    field("cublas", g.cublas, Allow::any, "");
    field("cudnn", g.cudnn, Allow::any, "");
  }
};

struct Machine {
  std::string fingerprint;
  Cpu cpu;
  int64_t ram_bytes = 0;
  std::string kernel;
  bool virtual_machine = false;
  std::optional<Gpu> gpu;

  static void members(auto& m, auto&& field) {
    field("fingerprint", m.fingerprint, Allow::any, "tells machines apart");
    field("cpu", m.cpu, Allow::any, "");
    field("ram_bytes", m.ram_bytes, Allow::not_negative, "");
    field("kernel", m.kernel, Allow::any, "release");
    field("virtual_machine", m.virtual_machine, Allow::any, "");
    field("gpu", m.gpu, Allow::any, "null where none was measured");
  }
};

// What may differ from run to run; "unavailable" where it cannot be read.
struct State {
  std::string governor, turbo, thp, aslr, smt, affinity;
  std::optional<double> cpu_quota_cores;
  int64_t usable_threads = 1;

  static void members(auto& s, auto&& field) {
    field("governor", s.governor, Allow::any, "of CPU frequency");
    field("turbo", s.turbo, Allow::any, "on, off");
    field("thp", s.thp, Allow::any, "transparent huge pages: always, madvise, never");
    field("aslr", s.aslr, Allow::any, "address space layout randomisation: 0, 1, 2");
    field("smt", s.smt, Allow::any, "on, off");
    field("affinity", s.affinity, Allow::any, "CPUs that the process may use");
    field("cpu_quota_cores", s.cpu_quota_cores, Allow::positive, "granted by the control group; null: no limit");
    field("usable_threads", s.usable_threads, Allow::at_least_one, "CPUs that the process may use, within the quota");
  }
};

// Google Benchmark's member `context`, with its names: its tools read them.
struct BenchmarkCache {
  std::string type;
  int64_t level = 0, size = 0, num_sharing = 0;

  static void members(auto& c, auto&& field) {
    field("type", c.type, Allow::any, "");
    field("level", c.level, Allow::not_negative, "");
    field("size", c.size, Allow::not_negative, "bytes");
    field("num_sharing", c.num_sharing, Allow::not_negative, "logical CPUs that share one");
  }
};

struct BenchmarkContext {
  std::string date, host_name, executable;
  int64_t num_cpus = 0, mhz_per_cpu = 0;
  bool cpu_scaling_enabled = false;
  std::vector<BenchmarkCache> caches;
  std::vector<double> load_avg;
  std::string library_build_type;

  static void members(auto& c, auto&& field) {
    field("date", c.date, Allow::any, "");
    field("host_name", c.host_name, Allow::any, "");
    field("executable", c.executable, Allow::any, "");
    field("num_cpus", c.num_cpus, Allow::not_negative, "");
    field("mhz_per_cpu", c.mhz_per_cpu, Allow::not_negative, "");
    field("cpu_scaling_enabled", c.cpu_scaling_enabled, Allow::any, "");
    field("caches", c.caches, Allow::any, "");
    field("load_avg", c.load_avg, Allow::any, "");
    field("library_build_type", c.library_build_type, Allow::any, "");
  }
};

// One run of bench_all. `members` lists what stands under "duet"; "context" stands beside it, and so does "benchmarks",
// which is derived from the jobs when the file is written.
struct Run {
  std::string file;  // where it was read from
  BenchmarkContext context;
  Invocation invocation;
  Build build;
  Machine machine;
  State state;
  std::vector<Ceiling> ceilings;
  std::vector<Job> jobs;
  std::vector<Sweep> sweeps;

  static void members(auto& r, auto&& field) {
    field("run", r.invocation, Allow::any, "");
    field("build", r.build, Allow::any, "");
    field("machine", r.machine, Allow::any, "");
    field("state", r.state, Allow::any, "");
    field("ceilings", r.ceilings, Allow::any,
          "several of a name differ by footprint and threads: cpu.copy, cpu.fma.f32, gpu.mma.bf16, gpu.launch, ...");
    field("jobs", r.jobs, Allow::any, "one for each job selected, always: what did not run is there with its reason");
    field("sweeps", r.sweeps, Allow::any, "");
  }
};

// --- for code that goes through the lists

inline constexpr const char* kDeviceNames[] = {"cpu", "gpu"};
inline constexpr const char* kCeilingUnits[] = {"B/s", "FLOP/s", "OP/s", "s"};

// core's type, since core/ measures the GPU's.
void members_of_ceiling(auto& c, auto&& field) {
  field("name", c.name, Allow::not_empty, "");
  field("device", c.device, kDeviceNames, "");
  field("pattern", c.pattern, Allow::any, "of a bandwidth: read, write, clear, copy, update, triad");
  field("dtype", c.dtype, Allow::any, "of a compute peak");
  field("threads", c.threads, Allow::at_least_one, "");
  field("footprint_bytes", c.footprint_bytes, Allow::not_negative, "of all arrays together");
  field("value", c.value, Allow::positive, "95th percentile of the samples, or the 5th where the unit is s");
  field("unit", c.unit, kCeilingUnits, "");
  field("samples", c.samples, Allow::any, "in that unit");
}

// Calls field(name, member, allowed, meaning) for each member of any of these types.
template <class T, class Field>
void visit_members(T& value, Field&& field) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Ceiling>)
    members_of_ceiling(value, field);
  else
    std::remove_const_t<T>::members(value, field);
}

}  // namespace duet::results
