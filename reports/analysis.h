// SPDX-License-Identifier: Apache-2.0
// What a run says: which side wins, by how much, and what may not be compared. All rows of a report are computed here,
// from the verdicts and flags that the run file holds (results/rules.h); the renderers only draw them. Pointers point
// into the Run, which must outlive the analysis. Start at the end, with Analysis; analyse() fills it.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/rules.h"
#include "results/run.h"
#include "results/statistics.h"

namespace duet::reports {

using results::Amounts;
using results::Bound;
using results::Cache;
using results::Check;
using results::Choice;
using results::Device;
using results::Facts;
using results::Interval;
using results::Job;
using results::JobsByCase;
using results::Params;
using results::Repetition;
using results::RoofSource;
using results::Run;
using results::Scope;
using results::Series;
using results::Status;
using results::Step;
using results::Summary;
using results::Sweep;
using results::SweepPoint;
using results::Trust;

inline constexpr std::array kScopes = {Scope::kernel, Scope::call, Scope::end_to_end};

// --- CPU against GPU (pairs.cpp)

// What a case is: an op by itself, a training step or an inference. Each kind is compared apart from the others.
enum class Kind { op, step, inference };
Kind kind_of(const std::string& case_name);

// Who wins a row. level: the interval of the ratio contains 1.
enum class Winner { cpu, gpu, level };
Winner winner(const Interval& ratio);

// A comparable job on one side of a case that is not the fastest there.
struct SlowerJob {
  const Job* job;
  double factor;  // its fastest call in the cache state / that of the fastest job
};

struct SpeedupRow {
  std::string case_name, family;
  Choice cpu, gpu;
  std::array<std::optional<Interval>, 3> ratio = {};  // by Scope: the CPU's call / the GPU's scope
  const Series* one_thread = nullptr;  // the CPU job's one-thread call, where that is not the choice itself
  std::vector<SlowerJob> slower = {};  // the others of both sides: the CPU's, then the GPU's, the faster ones first
  bool weak_cpu = false;               // far below its own roof
  bool contested = false;  // a suspect job was faster than one of the two: the ratio may change once that is explained
  bool primary = true;     // the case's first cache state, on one machine where one has both sides; charts show these
  bool across_machines = false;  // the CPU of one, the GPU of another
  Kind kind() const { return kind_of(case_name); }
  const Interval& call() const { return *ratio[static_cast<size_t>(Scope::call)]; }
  double call_ratio() const { return call().value; }
};

// A case measured on one side only. Of several machines that measured it, each has a row.
struct OneSidedRow {
  std::string case_name, family;
  Device device = Device::cpu;
  Choice choice;
  const Series* one_thread = nullptr;
  std::vector<SlowerJob> slower = {};  // the others of this side, the faster ones first
  bool weak_cpu = false;
  std::string no_ratio_reason;  // why there is no result on the other side
  Kind kind() const { return kind_of(case_name); }
};

// The middle and the ends of some values.
struct Spread {
  std::vector<double> values;  // ascending, at least one
  explicit Spread(std::vector<double> of);
  double median() const;
  double lo() const { return values.front(); }
  double hi() const { return values.back(); }
};

struct FamilyTotal {
  std::string family;
  size_t cases = 0, gpu_wins = 0, cpu_wins = 0;  // by call; the others are level
  double cpu_s = 0, gpu_s = 0;                   // calls
  double geometric_mean = 0;
  std::optional<Spread> call = {}, end_to_end = {};  // of the cases' ratios; call has one for each case
};

// --- single calls (latency.cpp)

// Of the samples of one series, each a single call; percentile() of results/statistics.h.
struct Percentiles {
  size_t samples = 0;
  double p50_s = 0, p90_s = 0;
  std::optional<double> p99_s = {};  // from kMinP99Samples on: of fewer it is their largest
};
inline constexpr size_t kMinP99Samples = 100;
// Of a call whose samples are single applications; means of several would hide the slow ones. Of the repetitions that
// were not disturbed, or of all where each was.
std::optional<Percentiles> percentiles_of(const Series& series);

// Where the time of each call matters: calls on one sample, of the best job of each side of a case and each machine.
struct LatencyRow {
  std::string case_name;
  const Job* job;
  const Series* call;
  Percentiles percentiles;
};

// --- what fusion buys (fusion.cpp)

// A fused op beside the separate ops that it stands for, on one device of one machine. An implementation named
// `unfused` runs the tuned implementations of those ops, so that the ratio to the tuned fused one is of fusion alone;
// the fastest fused one may differ in its algorithm as well. Ratios: time of the separate ops / fused, by call.
struct FusionRow {
  std::string case_name;
  Choice unfused, fastest;
  std::optional<Choice> tuned = {};  // where it has a comparable row
  std::optional<Interval> ratio = {};
  Interval fastest_ratio = {};
};
// Over the cases of an op on a device of a machine that have a ratio to the tuned one.
struct FusionTotal {
  std::string op, machine;
  Device device;
  std::vector<double> ratios = {};
  double geometric_mean = 0;
};

// --- our own CPU code beside the libraries (libraries.cpp)

// The cases of a family that have comparable rows of both, on one machine.
struct LibraryRow {
  struct Case {
    std::string case_name;
    double ratio;  // the library's call / the fastest of our own
  };
  std::string family, library, machine;
  std::vector<Case> cases = {};  // the smallest ratio first
  double geometric_mean = 0;
};

// --- against the ceilings (roofs.cpp)

struct RooflinePoint {
  const Job* job;
  const Series* series;
  double intensity, rate;  // FLOP per byte, FLOP/s
  bool suspect;
  // Its data fits into a cache that is faster than the bandwidth drawn: not to be read against that slope.
  bool cached = false;
};

struct ComputeRoof {
  std::string dtype;
  const Ceiling* ceiling;
};

struct Roofline {
  Device device;
  std::string machine = "";                  // in a report of several runs
  const Ceiling* bandwidth = nullptr;        // of the largest footprint
  const Ceiling* cache_bandwidth = nullptr;  // of the fastest footprint, where that is in a cache
  std::vector<ComputeRoof> compute;          // fastest first
  std::vector<RooflinePoint> points = {};
};

struct BandwidthRow {
  std::string case_name, family;
  struct Bar {
    const Job* job;
    const Series* series;
    double byte_per_s, fraction;
    bool suspect;
  };
  std::vector<Bar> bars;  // at most one per device
};

// How near the memory-bound cases of a family come to their ceilings.
struct FamilyShare {
  std::string family;
  std::optional<Spread> cpu = {}, gpu = {};  // of fractions, without suspect ones
};

// The one to draw of several of a name: largest footprint, then most threads.
const Ceiling* chosen_ceiling(const Run& run, const std::string& name);

// --- sweeps, steps and inferences (break_even.cpp, steps.cpp)

// Between measured sizes nothing is known but that it lies there: no interpolated size is given.
struct BreakEven {
  enum class Kind { unknown, never, from_smallest, between } kind = Kind::unknown;
  double size = 0;   // the smallest measured one from which the GPU stays ahead; of never: the largest measured
  double above = 0;  // of between: the measured size before it, where the CPU is faster
};

struct BreakEvenRow {
  const Sweep* sweep;
  BreakEven resident, with_copies;
  bool gpu = false;  // whether it has a time on the GPU
  // Over the batch, curves show the time of one sample, so that the gain of a larger batch can be seen.
  bool per_sample() const { return sweep->size_name == "batch"; }
  bool of_model() const { return kind_of(sweep->op) != Kind::op; }
};

// A training step or an inference.
struct StepRow {
  const Job* job = nullptr;
  std::string side, model;                      // "CPU", "GPU graph"; "mlp f32 batch:8", from the job's name
  std::string label;                            // the side, with its machine in a report of several runs
  double step_s = 0, sum_s = 0, phases_s = 0;   // the call, the sum of its nodes, the sum of its phases
  std::optional<Percentiles> percentiles = {};  // of calls that were timed one by one
  std::string problem;                          // an impossible or poorly explained step
  bool explained = true;                        // false: the residual alone is the problem
  bool primary = false;                         // the model's largest batch; the visible chart shows these
  const Step& step() const { return *job->step; }
  bool possible() const { return problem.empty() || !explained; }
  double residual_s() const { return step_s - sum_s; }
  bool has_phases() const { return phases_s > 0; }
  double within_phases_s() const { return phases_s - sum_s; }
  double between_phases_s() const { return step_s - phases_s; }
};

// A model, precision and batch on the GPU of a machine beside its own CPU, or beside the fastest one where it measured
// none. A CPU that stands beside no GPU has a row of its own.
struct StepPairs {
  struct Side {
    const StepRow* row;
    std::optional<Interval> ratio;  // the CPU's step / this one
  };
  std::string model, machine;  // the GPU's, or the CPU's where there is no GPU
  const StepRow* cpu = nullptr;
  std::vector<Side> gpu;  // eager, graph
};
// Of the possible rows, in their order; they point into them.
std::vector<StepPairs> step_pairs(const std::vector<StepRow>& rows);

// Over the sizes that were measured on both sides, which ascend.
BreakEven break_even(const Sweep& sweep, std::optional<double> SweepPoint::*gpu_s);

// --- without a result

struct MissingGroup {
  std::string status, reason;
  std::vector<std::string> jobs;
};

// --- the memory and transfer study: rows of the ops study/... as curves (studies.cpp)

struct StudyPoint {
  double x = 0, y = 0;
  const Job* job = nullptr;
  const Series* series = nullptr;
};
struct StudyLine {
  std::string label;  // "cpu.libc", "h2d pinned"
  Device device = Device::cpu;
  std::vector<StudyPoint> points;  // x ascends
};
struct Study {
  std::string name, question;  // "transfer"; what the study asks
  std::string x_name, y_name;  // of the axes
  bool x_is_bytes = false;
  std::string y_unit;  // "B/s", "s", "" for a ratio
  std::vector<StudyLine> lines;
  std::string sentence;  // what its rows say
};
// Those of which the run has a comparable row, in the order of the catalogue.
std::vector<Study> studies_of(const Run& run);

struct Analysis {
  std::map<Status, size_t> count;
  size_t suspect_jobs = 0, excluded_jobs = 0, disturbed_repetitions = 0, repetitions = 0;
  bool gpu_measured = false;
  std::string no_gpu_reason;  // where the GPU was not measured
  std::vector<std::string> warnings;
  std::vector<SpeedupRow> speedups;     // by call ratio, largest first
  std::vector<OneSidedRow> one_sided;   // in the run's order
  std::vector<results::Beaten> beaten;  // own CPU code of which a library is faster
  std::vector<FamilyTotal> families;
  std::vector<LatencyRow> latencies;  // in the run's order
  size_t batched_latencies = 0;       // rows left out of them: their samples are means of several calls
  std::vector<FusionRow> fusions;     // in the run's order
  std::vector<FusionTotal> fusion_totals;
  std::vector<LibraryRow> libraries;  // by machine, library and family
  std::vector<Roofline> rooflines;
  std::vector<BandwidthRow> bandwidth;
  std::vector<FamilyShare> bandwidth_families;  // by name
  std::vector<BreakEvenRow> break_evens;        // models first
  std::vector<StepRow> steps, inferences;       // in the order of the jobs
  std::vector<Study> studies;
  std::vector<MissingGroup> missing;  // failed, suspect, excluded, skipped
};

Analysis analyse(const Run& run);

std::string family_of(const Job& job);  // "other" where the job names none

// Parts of analyse().
void add_pairs(const JobsByCase& cases, Analysis& analysis);
void add_latencies(const JobsByCase& cases, Analysis& analysis);
void add_fusions(const JobsByCase& cases, Analysis& analysis);
void add_libraries(const JobsByCase& cases, Analysis& analysis);
void add_roofs(const Run& run, const JobsByCase& cases, Analysis& analysis);
std::vector<StepRow> step_rows(const Run& run, Kind kind);

}  // namespace duet::reports
