// SPDX-License-Identifier: Apache-2.0
#include "results/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "results/statistics.h"

namespace duet::results {
namespace {

bool has(const std::vector<std::string>& flags, std::string_view flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace

std::string series_name(const Series& s) {
  return fmt::format("{}, {}, {} thread{}", name_of(s.scope), name_of(s.cache), s.threads, s.threads == 1 ? "" : "s");
}

bool Series::has_flag(const std::string& flag) const { return has(flags, flag); }

std::optional<double> Counters::value_of(Quantity quantity) const {
  for (const Reading& r : readings)
    if (r.quantity == quantity) return r.value;
  return std::nullopt;
}

std::optional<double> Counters::watts_of(Quantity energy) const {
  const std::optional<double> joules = value_of(energy);
  if (!joules || !window) return std::nullopt;
  return *joules * static_cast<double>(window->applications) / window->time_s;
}

// --- repetitions

bool contended(double foreign_cores, double steal_share) {
  return foreign_cores > kContendedCores || steal_share > kContendedSteal;
}

bool disturbed(const Repetition& repetition) {
  return std::any_of(repetition.flags.begin(), repetition.flags.end(),
                     [](const std::string& f) { return f != flag::kRetried; });
}

void append_attempt(Repetition& all, const Repetition& attempt) {
  const auto mean = [&](double a, double b) {
    return (a * all.wall_s + b * attempt.wall_s) / (all.wall_s + attempt.wall_s);
  };
  all.foreign_cores = mean(all.foreign_cores, attempt.foreign_cores);
  all.steal_share = mean(all.steal_share, attempt.steal_share);
  all.wall_s += attempt.wall_s;
  all.samples_s.insert(all.samples_s.end(), attempt.samples_s.begin(), attempt.samples_s.end());
  all.roof_s.insert(all.roof_s.end(), attempt.roof_s.begin(), attempt.roof_s.end());
  if (all.roof_s.size() < all.samples_s.size()) all.roof_s.clear();  // one of them was not probed
  all.sm_clock_mhz = attempt.sm_clock_mhz;
  all.memory_clock_mhz = attempt.memory_clock_mhz;
  if (attempt.throttled_by) all.throttled_by = attempt.throttled_by;
  for (const std::string& flag : attempt.flags)
    if (!has(all.flags, flag)) all.flags.push_back(flag);
}

namespace {

// The values that count: of undisturbed repetitions, or of all where too few of them are. Repetitions of one process
// resemble each other more than those of two, so that several processes count with one value each, their median.
std::vector<double> counted(const std::vector<Repetition>& repetitions, double (*value)(const Repetition&)) {
  std::map<int64_t, std::vector<double>> clean, all;  // by process
  for (const Repetition& r : repetitions) {
    all[r.process].push_back(value(r));
    if (!disturbed(r)) clean[r.process].push_back(all[r.process].back());
  }
  if (all.size() == 1) {
    auto& [process, values] = *all.begin();
    return clean[process].size() >= kEnoughRepetitions ? clean[process] : values;
  }
  std::vector<double> values;
  for (const auto& [process, of_all] : all) values.push_back(median(clean[process].empty() ? of_all : clean[process]));
  return values;
}

// What the smallest and the largest of these values are. With n of them they bound the median with 1 - 2^(1-n), 97 %
// for n = 6. several: what the values are of, where there are more than one.
std::string interval_name(const std::vector<Repetition>& repetitions, size_t values, const char* several) {
  const bool of_processes = std::any_of(repetitions.begin(), repetitions.end(),
                                        [&](const Repetition& r) { return r.process != repetitions[0].process; });
  const char* kind = values >= 6 ? "order statistics" : "min-max";
  if (of_processes) return fmt::format("{} of {} processes", kind, values);
  return values == 1 ? "one repetition: none" : fmt::format("{} of {}", kind, several);
}

}  // namespace

std::vector<double> counted_medians(const std::vector<Repetition>& repetitions) {
  return counted(repetitions, [](const Repetition& r) { return median(r.samples_s); });
}

Summary summarise(const std::vector<Repetition>& repetitions) {
  std::vector<double> medians = counted_medians(repetitions);
  Summary s;
  s.median_s = median(medians);
  std::sort(medians.begin(), medians.end());
  s.lo_s = medians.front();
  s.hi_s = medians.back();
  s.interval = interval_name(repetitions, medians.size(), "repetition medians");
  s.min_s = s.median_s;
  for (const Repetition& r : repetitions)
    for (const double t : r.samples_s) s.min_s = std::min(s.min_s, t);
  return s;
}

bool shows_contention(double wall_s) { return wall_s >= kMinContention_s; }

void decide_contention(Series& series, const CpuWindow& around) {
  series.foreign_cores.reset();
  CpuWindow window;  // the repetitions
  for (const Repetition& r : series.repetitions) {
    window.wall_s += r.wall_s;
    window.foreign_cores += r.foreign_cores * r.wall_s;
    window.steal_share += r.steal_share * r.wall_s;
  }
  if (shows_contention(window.wall_s)) {
    window.foreign_cores /= window.wall_s;
    window.steal_share /= window.wall_s;
  } else {
    window = around;
  }
  if (!shows_contention(window.wall_s)) return;
  series.foreign_cores = window.foreign_cores;
  const bool all = contended(window.foreign_cores, window.steal_share);
  for (Repetition& r : series.repetitions) {
    // A repetition that is too short by itself shares the verdict of the whole series.
    const bool one = shows_contention(r.wall_s) ? contended(r.foreign_cores, r.steal_share) : all;
    if (one && !has(r.flags, flag::kContended)) r.flags.emplace_back(flag::kContended);
  }
}

// --- series

bool is_suspect(const Series& series) { return series.has_flag(flag::kSuspect); }

bool has_disturbed_roof(const Series& series) {
  if (!series.roof || series.roof->fraction <= kSuspectFraction) return false;
  return series.has_flag(flag::kDisturbed) || (series.roof->source == RoofSource::adjacent && !series.roof->quiet);
}

bool has_unsteady_share(const Series& series) {
  const double max = series.has_flag(flag::kDisturbed) ? kMaxDisturbedShareSpread : kMaxShareSpread;
  return series.roof && series.roof->hi - series.roof->lo > max;
}

namespace {

// Whether the probe was steady within the repetition, and nothing else ran.
bool quiet_probe(const Repetition& r) {
  if (disturbed(r) || r.roof_s.size() < 3) return false;
  std::vector<double> sorted = r.roof_s;
  std::sort(sorted.begin(), sorted.end());
  const size_t quarter = sorted.size() / 4;
  return sorted[sorted.size() - 1 - quarter] - sorted[quarter] <= kSteadyProbe * median(sorted);
}

double paired_fraction(const Repetition& r) {
  std::vector<double> ratios;
  for (size_t i = 0; i < r.samples_s.size(); ++i) ratios.push_back(r.roof_s[i] / r.samples_s[i]);
  return median(ratios);
}

}  // namespace

bool over_roof(const Repetition& r) { return !r.roof_s.empty() && paired_fraction(r) > kSuspectFraction; }

bool set_adjacent_fraction(const std::vector<Repetition>& repetitions, Roof& roof) {
  if (repetitions.empty()) return false;
  bool quiet = true;
  for (const Repetition& r : repetitions) {
    if (r.roof_s.empty()) return false;
    quiet = quiet && quiet_probe(r);
  }
  std::vector<double> ratios = counted(repetitions, paired_fraction);
  std::sort(ratios.begin(), ratios.end());
  roof.fraction = median(ratios);
  roof.lo = ratios.front();
  roof.hi = ratios.back();
  roof.interval = interval_name(repetitions, ratios.size(), "paired repetitions");
  roof.source = RoofSource::adjacent;
  roof.quiet = quiet;
  return true;
}

bool far_below_roof(const Series& series) {
  return series.roof && !series.has_flag(flag::kFloor) && series.roof->fraction < kWeakFraction;
}

void set_flags(Series& series, Device device, double empty_s) {
  std::erase_if(series.flags, [](const std::string& f) {
    return f == flag::kSuspect || f == flag::kWeakCpu || f == flag::kFloor || f == flag::kDisturbed ||
           f == flag::kUnchecked;
  });
  const auto undisturbed = static_cast<size_t>(
      std::count_if(series.repetitions.begin(), series.repetitions.end(), [](const auto& r) { return !disturbed(r); }));
  if (undisturbed < std::min(kEnoughRepetitions, series.repetitions.size()))
    series.flags.emplace_back(flag::kDisturbed);
  if (device == Device::cpu && !series.foreign_cores) series.flags.emplace_back(flag::kUnchecked);
  const bool at_floor = series.summary.median_s < kFloorFactor * empty_s;
  if (at_floor) series.flags.emplace_back(flag::kFloor);
  if (!series.roof || at_floor) return;
  // Only a probe that was steady beside the samples accuses a row; the ceilings of the run may be of another moment,
  // and can only defend it (Roof::quiet).
  const Roof& roof = *series.roof;
  if (roof.source == RoofSource::adjacent && roof.quiet && roof.lo > kSuspectFraction)
    series.flags.emplace_back(flag::kSuspect);
  if (device == Device::cpu && far_below_roof(series)) series.flags.emplace_back(flag::kWeakCpu);
}

std::string suspicion(const Series& series) {
  if (!is_suspect(series)) return "";
  if (!series.roof) return "flagged suspect by the run";
  return fmt::format("{:.0f} % of its roof ({}): wrong byte count or broken timing", 100 * series.roof->fraction,
                     series.roof->ceiling);
}

// --- jobs

bool is_competitor(const std::string& implementation) {
  const size_t dot = implementation.find('.');
  const std::string variant = dot == std::string::npos ? implementation : implementation.substr(dot + 1);
  return !implementation.starts_with("simt.") && variant != "reference";
}

std::string refusal(const Job& job) {
  if (job.status != Status::ok) return job.reason;
  if (!is_competitor(job.impl)) return "it is for checking and never stands in a ratio";
  if (!job.check) return "timed, but its result was not checked";
  if (!job.check->max_error_ratio) return "timed, but its largest error is not a number";
  if (job.check->slices == 0 || job.check->elements == 0) return "timed, but no part of its result was compared";
  if (!(*job.check->max_error_ratio <= 1))
    return fmt::format("largest error is {:.3g} times its bound", *job.check->max_error_ratio);
  return "";
}

std::string suspicion(const Job& job) {
  std::string text;
  for (const Series& s : job.series)
    if (const std::string reason = suspicion(s); !reason.empty())
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", series_name(s), reason);
  return text;
}

void set_verdict(Job& job) {
  std::string reason = refusal(job);
  if (reason.empty()) reason = suspicion(job);
  job.comparable = reason.empty();
  job.reason = std::move(reason);
  set_trust(job);
}

void set_trust(Job& job) {
  const bool any_disturbed =
      std::any_of(job.series.begin(), job.series.end(), [](const Series& s) { return s.has_flag(flag::kDisturbed); });
  job.trust = !job.comparable ? Trust::unusable : any_disturbed ? Trust::disturbed : Trust::trustworthy;
}

const Series* find_series(const Job& job, Scope scope, Cache cache, int64_t threads) {
  for (const Series& s : job.series)
    if (s.scope == scope && s.cache == cache && s.threads == threads) return &s;
  return nullptr;
}

const Series* step_call(const Job& job) {
  const Series* found = nullptr;
  for (const Series& s : job.series)
    if (s.scope == Scope::call && (!found || s.threads > found->threads)) found = &s;
  return found;
}

// --- the best of a side

const Series* Choice::at(Scope scope) const {
  switch (scope) {
    case Scope::kernel:
      return kernel;
    case Scope::call:
      return call;
    case Scope::end_to_end:
      return end_to_end;
    default:
      return overlapped;
  }
}

std::optional<Choice> best(const std::vector<const Job*>& jobs, Device device, Cache cache) {
  std::optional<Choice> fastest;
  for (const Job* job : jobs) {
    if (job->device != device || !job->comparable) continue;
    for (const Series& call : job->series) {
      if (call.scope != Scope::call || call.cache != cache) continue;
      if (fastest && fastest->call->summary.median_s <= call.summary.median_s) continue;
      fastest = Choice{job, &call, find_series(*job, Scope::kernel, cache, call.threads),
                       find_series(*job, Scope::end_to_end, cache, call.threads),
                       find_series(*job, Scope::overlapped, cache, call.threads)};
    }
  }
  return fastest;
}

std::optional<Choice> best(const std::vector<const Job*>& jobs, Device device) {
  for (const Cache cache : {Cache::warm, Cache::cold})
    if (auto choice = best(jobs, device, cache)) return choice;
  return {};
}

bool prepares_before_clock(const Job& job) {
  return job.plan && job.plan->algorithm.find(kBeforeTheClock) != std::string::npos;
}

bool is_library(const std::string& implementation) {
  constexpr std::string_view kLibraries[] = {"cpu.onednn", "cpu.onednn_packed", "cpu.openblas", "cpu.libc"};
  return std::find(std::begin(kLibraries), std::end(kLibraries), implementation) != std::end(kLibraries);
}

std::vector<Beaten> beaten(const std::vector<Job>& jobs) {
  std::vector<Beaten> found;
  for (const auto& [name, of_case] : jobs_by_case(jobs)) {
    struct Fastest {
      const Job* job = nullptr;
      double time_s = 0;
    };
    std::map<std::pair<Cache, int64_t>, std::array<Fastest, 2>> calls;  // our own, a library
    for (const Job* job : of_case) {
      if (job->device != Device::cpu || !job->comparable) continue;
      for (const Series& call : job->series) {
        if (call.scope != Scope::call) continue;
        Fastest& fastest = calls[{call.cache, call.threads}][is_library(job->impl) ? 1 : 0];
        if (!fastest.job || call.summary.median_s < fastest.time_s) fastest = {job, call.summary.median_s};
      }
    }
    for (const auto& [at, both] : calls)
      if (both[0].job && both[1].job && both[0].time_s > kBeatenFactor * both[1].time_s)
        found.push_back({both[0].job, both[1].job, at.first, at.second, both[0].time_s / both[1].time_s});
  }
  std::stable_sort(found.begin(), found.end(), [](const Beaten& a, const Beaten& b) { return a.factor > b.factor; });
  return found;
}

void flag_beaten(std::vector<Job>& jobs) {
  for (const Beaten& b : beaten(jobs))
    for (Series& call : jobs[static_cast<size_t>(b.own - jobs.data())].series)
      if (call.scope == Scope::call && call.cache == b.cache && call.threads == b.threads &&
          !call.has_flag(flag::kWeakCpu))
        call.flags.emplace_back(flag::kWeakCpu);
}

JobsByCase jobs_by_case(const std::vector<Job>& jobs) {
  JobsByCase cases;
  std::map<std::string, size_t> index;
  for (const Job& job : jobs) {
    if (is_study(job)) continue;
    const auto [at, is_new] = index.try_emplace(job.case_name, cases.size());
    if (is_new) cases.emplace_back(job.case_name, std::vector<const Job*>{});
    cases[at->second].second.push_back(&job);
  }
  return cases;
}

// --- ceilings

std::vector<Ceiling> join_ceilings(std::vector<Ceiling> before, const std::vector<Ceiling>& after,
                                   std::vector<std::string>& doubts) {
  const auto identity = [](const Ceiling& c) {
    return std::tie(c.name, c.device, c.dtype, c.threads, c.footprint_bytes);
  };
  int drifted = 0;
  double largest = 0;
  std::string largest_name;
  for (Ceiling& c : before) {
    const auto again =
        std::find_if(after.begin(), after.end(), [&](const Ceiling& a) { return identity(a) == identity(c); });
    if (again == after.end()) continue;
    const bool is_time = c.unit == "s";
    const double change = again->value / c.value - 1;
    if (!is_time && std::abs(change) > kCeilingDrift) {
      ++drifted;
      if (std::abs(change) > std::abs(largest)) {
        largest = change;
        largest_name = fmt::format("{}, {} thread(s), {:.3g} MB", c.name, c.threads,
                                   static_cast<double>(c.footprint_bytes) * 1e-6);
      }
    }
    c.value = is_time ? std::min(c.value, again->value) : std::max(c.value, again->value);
    c.samples.insert(c.samples.end(), again->samples.begin(), again->samples.end());
  }
  if (drifted > 0)
    doubts.push_back(
        fmt::format("{} of {} ceilings moved by more than {:.0f} % between start and end; the largest change: {} "
                    "({:+.0f} %). The higher value counts.",
                    drifted, before.size(), 100 * kCeilingDrift, largest_name, 100 * largest));
  return before;
}

std::string inconsistency(const std::vector<Ceiling>& ceilings) {
  std::string names;
  int64_t found = 0;
  for (const Ceiling& one : ceilings) {
    if (one.threads != 1 || one.unit == "s" || one.device != "cpu") continue;
    for (const Ceiling& all : ceilings)
      if (all.threads > 1 && all.name == one.name && all.dtype == one.dtype &&
          all.footprint_bytes == one.footprint_bytes && one.value > (1 + kCeilingDrift) * all.value) {
        if (++found == 1)
          names =
              fmt::format("{}, {:.3g} MB: {:.3g} {} with one thread, {:.3g} with {}", one.name,
                          static_cast<double>(one.footprint_bytes) * 1e-6, one.value, one.unit, all.value, all.threads);
      }
  }
  if (found == 0) return "";
  return fmt::format("{} ceilings are lower with all threads than with one ({}): the machine was not steady", found,
                     names);
}

// --- the run

ContentionChecked count_contention_checked(const std::vector<Job>& jobs) {
  ContentionChecked count;
  for (const Job& job : jobs) {
    if (job.device != Device::cpu) continue;
    for (const Series& s : job.series) {
      ++count.all;
      count.checked += s.foreign_cores.has_value();
    }
  }
  return count;
}

namespace {

std::string what_disturbed(const std::set<std::string>& flags, const std::set<std::string>& throttled_by) {
  std::vector<std::string> found;
  if (flags.contains(flag::kContended)) found.emplace_back("other processes ran");
  if (flags.contains(flag::kSlowed)) found.emplace_back("the CPUs were slowed");
  if (flags.contains(flag::kThrottled))
    found.push_back("the GPU lowered its clock" +
                    (throttled_by.empty() ? "" : fmt::format(" by {}", fmt::join(throttled_by, "; "))));
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

void decide_trust(Run& run, const std::string& unusable) {
  constexpr int64_t kShown = 3;  // names of disturbed rows in the text; each row says it itself
  Invocation& i = run.invocation;
  int64_t rows = 0, disturbed_rows = 0;
  std::string names;
  std::set<std::string> flags, throttled_by;
  for (const Job& job : run.jobs) {
    if (job.series.empty()) continue;
    ++rows;
    const bool any =
        std::any_of(job.series.begin(), job.series.end(), [](const Series& s) { return s.has_flag(flag::kDisturbed); });
    if (!any) continue;
    if (++disturbed_rows <= kShown) names += (names.empty() ? "" : ", ") + job.name;
    for (const Series& s : job.series) {
      if (!s.has_flag(flag::kDisturbed)) continue;
      for (const Repetition& r : s.repetitions) {
        flags.insert(r.flags.begin(), r.flags.end());
        if (r.throttled_by) throttled_by.insert(*r.throttled_by);
      }
    }
  }
  if (disturbed_rows > 0) {
    const ContentionChecked checked = count_contention_checked(run.jobs);
    i.doubts.push_back(
        fmt::format("{} of {} rows are disturbed: {} ({}{}). {} of {} series on the CPU could be checked",
                    disturbed_rows, rows, what_disturbed(flags, throttled_by), names,
                    disturbed_rows > kShown ? ", ..." : "", checked.checked, checked.all));
  }
  if (std::string found = inconsistency(run.ceilings); !found.empty()) i.doubts.push_back(std::move(found));
  if (!unusable.empty()) i.doubts.insert(i.doubts.begin(), "no ratio of this run is reliable: " + unusable);
  i.trust = !unusable.empty() ? Trust::unusable : i.doubts.empty() ? Trust::trustworthy : Trust::disturbed;
}

}  // namespace duet::results
