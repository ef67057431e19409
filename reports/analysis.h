// SPDX-License-Identifier: Apache-2.0
// What a run says: which side wins, by how much, and what may not be compared. All rows of a report are computed here;
// the renderers only draw them. Pointers point into the Run, which must outlive the analysis.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/run.h"
#include "reports/statistics.h"

namespace duet::reports {

inline constexpr double kOverRoof = 1.03;       // above: wrong byte count or broken timing, not a result
inline constexpr double kLowRoof = 0.4;         // below on the CPU: the ratio says little about the GPU
inline constexpr double kLargeResidual = 0.25;  // of a training step
inline constexpr std::array kScopes = {Scope::kernel, Scope::call, Scope::end_to_end};

// --- which series may stand in a ratio (plausible.cpp)

// Why the series is no result, or empty: over its roof, or flagged by the run. The share of a `floor` series is not
// interpreted: the kernel is nearly as short as an empty one.
std::string suspicion(const Series& series);

// Why the job may not stand in any ratio, or empty: it did not run, was not verified, or is the reference.
std::string refusal(const Job& job);

// Which of its series are suspect and why, or empty. One suspect series keeps the whole job out: bytes and clock are
// shared, and falling back on its one-thread row would flatter the other side.
std::string suspicion(const Job& job);

inline bool comparable(const Job& job) { return refusal(job).empty() && suspicion(job).empty(); }

const Series* find_series(const Job& job, Scope scope, Cache cache, int64_t threads);

// Medians of the undisturbed repetitions; of all of them where fewer than three are undisturbed.
std::vector<double> repetition_medians(const Series& series);

// --- best of a case (pairs.cpp)

struct Choice {
  const Job* job = nullptr;
  const Series* call = nullptr;
  const Series* kernel = nullptr;  // GPU only
  const Series* end_to_end = nullptr;
  const Series* device_time() const { return kernel ? kernel : call; }  // what is compared with the roof
  const Series* at(Scope scope) const;
};

struct SpeedupRow {
  std::string case_name, family;
  Choice cpu, gpu;
  std::array<std::optional<Interval>, 3> ratio = {};  // by Scope: the CPU's call / the GPU's scope
  const Series* one_thread = nullptr;  // the CPU job's one-thread call, where that is not the choice itself
  bool weak_cpu = false;
  bool contested = false;  // a suspect job was faster than one of the two: the ratio may change with its explanation
  bool primary = true;     // the case's first cache state; charts show these
  double call_ratio() const { return ratio[static_cast<size_t>(Scope::call)]->value; }
};

// A case measured on one side only.
struct OneSidedRow {
  std::string case_name, family;
  Device device = Device::cpu;
  Choice choice;
  const Series* one_thread = nullptr;
  bool weak_cpu = false;
  std::string missing;  // why there is nothing on the other side
};

struct FamilyTotal {
  std::string family;
  size_t cases = 0;
  double cpu_s = 0, gpu_s = 0;  // calls
  double geometric_mean = 0;
};

// --- against the ceilings (roofs.cpp)

struct RooflinePoint {
  const Job* job;
  const Series* series;
  double intensity, rate;  // FLOP per byte, FLOP/s
  bool suspect;
};

struct ComputeRoof {
  std::string dtype;
  const Ceiling* ceiling;
};

struct Roofline {
  Device device;
  const Ceiling* bandwidth = nullptr;
  std::vector<ComputeRoof> compute;  // fastest first
  std::vector<RooflinePoint> points = {};
};

struct BandwidthRow {
  std::string case_name;
  struct Bar {
    const Job* job;
    const Series* series;
    double byte_per_s, fraction;
    bool suspect;
  };
  std::vector<Bar> bars;  // at most one per device
};

// The one to draw of several of a name: largest footprint, then most threads.
const Ceiling* chosen_ceiling(const Run& run, const std::string& name);

// --- sweeps and steps (break_even.cpp, steps.cpp)

struct BreakEven {
  enum class Kind { unknown, never, from_smallest, at } kind = Kind::unknown;
  double size = 0;
};

struct BreakEvenRow {
  const Sweep* sweep;
  BreakEven resident, with_copies;
  bool gpu = false;  // has a time of one
  // Sizes of a batch: curves show the time of a sample, which says what a larger batch saves.
  bool per_sample() const { return sweep->size_name == "batch"; }
  bool of_model() const { return sweep->op.starts_with("step/"); }
};

struct StepRow {
  const Step* step;
  const Job* job = nullptr;
  Device device = Device::cpu;
  std::string label, model;  // "CPU", "GPU graph"; the model as the run names it, or from the job's name
  double step_s = 0, sum_s = 0, phases_s = 0;
  std::string problem;    // an impossible or poorly explained step
  bool explained = true;  // false: the residual alone is the problem
  bool primary = false;   // the model's largest batch; a chart in sight shows these
  double residual_s() const { return step_s - sum_s; }
  bool has_phases() const { return phases_s > 0; }
  double within_phases_s() const { return phases_s - sum_s; }
  double between_phases_s() const { return step_s - phases_s; }
};

// The smallest size from which the GPU stays ahead, interpolated on logarithms.
BreakEven break_even(const Sweep& sweep, std::optional<double> SweepPoint::*gpu_s);

// --- without a result

struct MissingGroup {
  std::string status, reason;
  std::vector<std::string> jobs;
};

struct Analysis {
  std::map<Status, size_t> count;
  size_t suspect_jobs = 0, excluded_jobs = 0, disturbed_repetitions = 0, repetitions = 0;
  bool gpu_measured = false;
  std::string no_gpu_reason;  // where it was not
  std::vector<std::string> warnings;
  std::vector<SpeedupRow> speedups;    // by call ratio, largest first
  std::vector<OneSidedRow> one_sided;  // in the run's order
  std::vector<FamilyTotal> families;
  std::vector<Roofline> rooflines;
  std::vector<BandwidthRow> bandwidth;
  std::vector<BreakEvenRow> break_evens;  // models first
  std::vector<StepRow> steps;             // in the order of the jobs
  std::vector<MissingGroup> missing;      // failed, suspect, excluded, skipped
};

Analysis analyse(const Run& run);

// Parts of analyse().
using Cases = std::vector<std::pair<std::string, std::vector<const Job*>>>;  // in the run's order
Cases cases_of(const Run& run);
void add_pairs(const Run& run, const Cases& cases, Analysis& analysis);
void add_roofs(const Run& run, const Cases& cases, Analysis& analysis);
std::vector<StepRow> step_rows(const Run& run);
std::optional<Choice> best(const std::vector<const Job*>& jobs, Device device, Cache cache);
std::optional<Choice> best(const std::vector<const Job*>& jobs,
                           Device device);  // of the first cache state that has one

}  // namespace duet::reports
