// SPDX-License-Identifier: Apache-2.0
// Every rule and threshold that turns measurements into statements, each once. bench applies them when it writes a run
// (flags, summaries, verdicts); reports and scripts read what was written and decide nothing again.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/run.h"

namespace duet::results {

inline constexpr double kSuspectFraction = 1.03;  // of a quiet adjacent roof; above: wrong byte count or broken timing
inline constexpr double kWeakFraction = 0.4;      // of the roof; a CPU below it says little about a GPU
inline constexpr double kBeatenFactor = 1.1;      // own CPU code is weak where a library is faster by more
inline constexpr double kFloorFactor = 3;         // shorter than this many empty kernels, or calls of them
inline constexpr double kContendedCores = 0.05;   // CPU cores used by other processes while a repetition ran
inline constexpr double kContendedSteal = 0.01;   // of all CPU time, taken by the hypervisor
inline constexpr double kSlowedBy = 1.33;        // so many times as long as the shortest: multiply-adds on a slowed CPU
inline constexpr double kMinContention_s = 0.1;  // shorter windows hold too few ticks of /proc/stat (10 ms)
inline constexpr double kSteadyProbe = 0.1;      // (upper - lower quartile) / median of a probe that was quiet
// Of a share of the roof that one number describes: 5 points up or down. Half as much where the series is disturbed:
// beside other work three repetitions show only a part of how far runs lie apart.
inline constexpr double kMaxShareSpread = 0.1, kMaxDisturbedShareSpread = 0.05;
inline constexpr size_t kEnoughRepetitions = 3;   // undisturbed ones; with fewer, all count
inline constexpr double kLargeResidual = 0.25;    // of a training step
inline constexpr double kCeilingDrift = 0.03;     // a ceiling that moved by more has measured two machines
inline constexpr size_t kMinSweepSizes = 3;       // two points make no curve
inline constexpr double kMinCounterWindow_s = 2;  // counters of energy move every few milliseconds, some every 100

// Flags of series and repetitions, as the file spells them.
namespace flag {
inline constexpr const char* kSuspect = "suspect";
inline constexpr const char* kWeakCpu = "weak_cpu";
inline constexpr const char* kFloor = "floor";
inline constexpr const char* kDisturbed = "disturbed";
inline constexpr const char* kRestored = "restored";
inline constexpr const char* kSynchronises = "synchronises";
inline constexpr const char* kUnchecked = "unchecked";
inline constexpr const char* kContended = "contended";
inline constexpr const char* kThrottled = "throttled";
inline constexpr const char* kSlowed = "slowed";
inline constexpr const char* kRetried = "retried";
}  // namespace flag

// --- repetitions

bool contended(double foreign_cores, double steal_share);
// Whether multiply-adds that take so many times as long as the shortest show that the CPUs are slower than they can be:
// two of them on one core, or a clock that another guest's work lowers.
inline bool slowed(double slowdown) { return slowdown > kSlowedBy; }
// Any flag but `retried` marks a repetition as disturbed: a second attempt that was left alone is as good as a first
// one.
bool disturbed(const Repetition& repetition);
// Adds the samples of another attempt at a repetition. The roof was probed beside each sample, so that the share of the
// roof is steadier over all of them than over the last attempt, whatever ran meanwhile.
void append_attempt(Repetition& all, const Repetition& attempt);
// Medians of the undisturbed repetitions; of all of them where fewer than kEnoughRepetitions are undisturbed, since one
// or two values alone would look like no spread at all. Where several processes took them, one value a process.
std::vector<double> counted_medians(const std::vector<Repetition>& repetitions);
Summary summarise(const std::vector<Repetition>& repetitions);
// Whether repetitions this long show what other processes did.
bool shows_contention(double wall_s);
// What the CPUs did besides this program while it worked on a case: its preparation, all repetitions of all series, and
// their checks.
struct CpuWindow {
  double wall_s = 0, foreign_cores = 0, steal_share = 0;
};
// Checks all repetitions of a series together, however short each is: sets Series::foreign_cores, and marks each
// repetition as contended where other processes ran meanwhile. Where even all of them are too short, the window around
// them decides.
void decide_contention(Series& series, const CpuWindow& around = {});

// --- series

std::string series_name(const Series& series);  // "call, warm, 2 threads"
bool is_suspect(const Series& series);
// The series is faster than its roof, and the roof may not accuse it: it was not steady, or slowed down, or the last
// cache keeps a part of what both touch. The share says nothing.
bool has_disturbed_roof(const Series& series);
// The repetitions disagree about the share of the roof by more than kMaxShareSpread, or where the series is disturbed
// kMaxDisturbedShareSpread: it is shown as their range.
bool has_unsteady_share(const Series& series);
// Whether a repetition was faster than the adjacent probe of its roof by more than kSuspectFraction allows.
bool over_roof(const Repetition& repetition);
// Roof::fraction and its interval from the adjacent probe: roof_s / samples_s sample by sample, its median in each
// repetition that counts.
// False where not all of them have a probe.
bool set_adjacent_fraction(const std::vector<Repetition>& repetitions, Roof& roof);
bool far_below_roof(const Series& series);  // not of a series at the floor: its share is not interpreted
// Sets suspect, weak_cpu, floor and disturbed by the roof and the repetitions; other flags stay. empty_s: of an
// empty kernel in the series' scope, 0 where it was not measured.
void set_flags(Series& series, Device device, double empty_s);
std::string suspicion(const Series& series);  // why the series is no result, or empty

// --- jobs

// The reference is serial and in double: a ratio over it says nothing. simt runs CUDA kernels on the host to check
// them.
bool is_competitor(const std::string& implementation);
// Why a job is in no ratio whatever its times are, or empty: it did not run, was not verified, or is no competitor.
std::string refusal(const Job& job);
// Which of its series are suspect and why, or empty. One suspect series excludes the whole job: bytes and clock are
// shared, and its one-thread series alone would flatter the other side.
std::string suspicion(const Job& job);
void set_verdict(Job& job);  // comparable and reason, from the two functions above, and trust
void set_trust(Job& job);    // from the verdict and the series

const Series* find_series(const Job& job, Scope scope, Cache cache, int64_t threads);
const Series* step_call(const Job& job);  // whose time is that of a training step: the call with most threads

// --- the best of a side

struct Choice {
  const Job* job = nullptr;
  const Series* call = nullptr;
  const Series* kernel = nullptr;  // GPU only
  const Series* end_to_end = nullptr;
  const Series* overlapped = nullptr;                                   // training steps and inferences on a GPU only
  const Series* device_time() const { return kernel ? kernel : call; }  // what is compared with the roof
  const Series* at(Scope scope) const;
};
// The comparable job with the fastest call.
std::optional<Choice> best(const std::vector<const Job*>& jobs, Device device, Cache cache);
std::optional<Choice> best(const std::vector<const Job*>& jobs, Device device);  // warm, or cold where nothing is warm

// A case in which a library's call on the CPU is faster than the best of our own by more than kBeatenFactor, in the
// same cache state and with as many threads.
struct Beaten {
  const Job *own, *library;
  Cache cache;
  int64_t threads;
  double factor;  // time of our own / time of the library
};
// Whether some inputs, such as weights, were brought into a form of the implementation's own before the clock: its
// algorithm then ends with these words and their names. Such a row may be the best of its side; a report marks it.
inline constexpr const char* kBeforeTheClock = "brought into its form before the clock: ";
bool prepares_before_clock(const Job& job);
bool is_library(const std::string& implementation);        // on the CPU, code that is not ours: cpu.onednn
std::vector<Beaten> beaten(const std::vector<Job>& jobs);  // the largest factor first
void flag_beaten(std::vector<Job>& jobs);  // marks those calls weak_cpu; after set_flags, when all jobs are there

// The implementations of a case of a study (ops/study) are what it compares with each other: they are no rivals.
inline bool is_study(const Job& job) { return job.op.starts_with("study/"); }

using JobsByCase = std::vector<std::pair<std::string, std::vector<const Job*>>>;  // in the run's order
JobsByCase jobs_by_case(const std::vector<Job>& jobs);                            // without those of studies

// --- ceilings

// Ceilings measured before and after the jobs, as one list: of each the better value, since a machine can do what it
// did once. Adds a doubt where some of them drifted: it concerns the run, never a row.
std::vector<Ceiling> join_ceilings(std::vector<Ceiling> before, const std::vector<Ceiling>& after,
                                   std::vector<std::string>& doubts);
// Ceilings that contradict each other: one thread faster than all of them. Empty where none do.
std::string inconsistency(const std::vector<Ceiling>& ceilings);

// --- the run

// Adds to the doubts what the rows and the ceilings show, and sets Invocation::trust from all doubts. unusable: why no
// ratio of this run means anything, or empty.
void decide_trust(Run& run, const std::string& unusable = "");
// Series whose contention could be checked, and all of them.
struct ContentionChecked {
  int64_t checked = 0, all = 0;
};
ContentionChecked count_contention_checked(const std::vector<Job>& jobs);

}  // namespace duet::results
