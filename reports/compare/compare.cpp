// SPDX-License-Identifier: Apache-2.0
#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "results/rules.h"

namespace duet::reports {
namespace {

using results::Interval;
using results::Status;

constexpr size_t kMinValues = 4;  // of each side, for any verdict but same: three against three have p = 0.1 at best
constexpr double kClockShift = 0.03;  // of the GPU's clock, beyond which times alone decide nothing

bool has_result(const MeasuredRow& row) { return !row.values.empty(); }

ComparedRow named(const MeasuredRow& row) {
  ComparedRow r;
  r.name = row.name;
  r.job = row.job;
  r.family = row.family;
  r.device = row.device;
  r.scope = row.scope;
  r.note = row.note;
  return r;
}

void decide(RowPair& pair, Verdict verdict, const char* code, std::string detail = "") {
  pair.row.verdict = verdict;
  pair.row.code = code;
  pair.row.detail = std::move(detail);
  pair.decided = true;
}

// Index of rows by name, and of jobs that have no result by the job's name.
struct Index {
  std::unordered_map<std::string, const MeasuredRow*> rows, without;
  explicit Index(const MeasuredRun& run) {
    for (const MeasuredRow& row : run.rows) (has_result(row) ? rows : without).emplace(row.name, &row);
  }
  const MeasuredRow* row(const std::string& name) const {
    const auto at = rows.find(name);
    return at == rows.end() ? nullptr : at->second;
  }
  const MeasuredRow* failure(const std::string& job) const {
    const auto at = without.find(job);
    return at == without.end() ? nullptr : at->second;
  }
};

RowPair pair_of(const MeasuredRow& base, const MeasuredRow& head) {
  RowPair pair{&base, &head, named(head), false};
  pair.row.base = base.value;
  pair.row.head = head.value;
  pair.row.base_values = base.values.size();
  pair.row.head_values = head.values.size();
  if (!base.note.empty() && base.note != head.note)
    pair.row.note = fmt::format("{} in base, {} in head", base.note, head.note);
  if (head.status == Status::failed) {
    decide(pair, Verdict::error, "failed_in_head", head.reason);
  } else if (!base.reason.empty() || !head.reason.empty()) {
    pair.row.ratio = {};
    decide(pair, Verdict::ambiguous, "not_comparable", head.reason.empty() ? "in base: " + base.reason : head.reason);
  }
  return pair;
}

// Whether a shift of the GPU's clock explains that of the times: cycles must tell the same.
bool clock_explains(const MeasuredRow& base, const MeasuredRow& head, bool slower) {
  if (base.clocks_mhz.size() != base.values.size() || head.clocks_mhz.size() != head.values.size()) return false;
  if (base.clocks_mhz.empty()) return false;
  const double shift = results::median(head.clocks_mhz) / results::median(base.clocks_mhz);
  if (std::abs(shift - 1) <= kClockShift) return false;
  const auto cycles = [](const MeasuredRow& row) {
    std::vector<double> values;
    for (size_t i = 0; i < row.values.size(); ++i) values.push_back(row.values[i] * row.clocks_mhz[i]);
    return values;
  };
  const Interval ratio = results::ratio_interval(cycles(head), cycles(base));
  return slower ? ratio.lo <= 1 : ratio.hi >= 1;
}

}  // namespace

const char* name_of(Verdict verdict) {
  constexpr std::array kNames{"SLOWER", "ERROR", "MISSING", "AMBIGUOUS", "FASTER", "NEW", "SAME"};
  return kNames[static_cast<size_t>(verdict)];
}

std::string text_of_code(const std::string& code) {
  static const std::map<std::string, const char*> kTexts{
      {"beyond_floor", "beyond the smallest effect that counts, and its interval excludes 1"},
      {"within_floor", "the whole interval lies within the smallest effect that counts"},
      {"small_shift", "the shift is smaller than the smallest effect that counts"},
      {"interval_beyond_floor", "the shift is small, but its interval reaches beyond the smallest effect that counts"},
      {"one_process", "one process a side: processes may differ by as much (--processes measures it)"},
      {"too_few_values", "fewer than 4 values on a side"},
      {"interval_contains_1", "values scatter too much: the interval contains 1"},
      {"disturbed", "other processes ran, the CPUs were slowed, or the GPU lowered its clock"},
      {"clock", "the GPU ran at another clock, which explains the shift"},
      {"not_comparable", "not comparable"},
      {"failed_in_head", "failed in head"},
      {"failed_in_both", "failed in base and in head"},
      {"skipped_in_head", "skipped in head"},
      {"not_in_head", "not in head"},
      {"not_in_base", "not in base"},
      {"failed_in_base", "failed in base"},
      {"skipped_in_base", "skipped in base"},
      {"not_a_candidate", "the screening processes show no shift"},
      {"confirmed", "more than chance, and beyond the smallest effect that counts"},
      {"not_confirmed", "no shift that counts, but its interval reaches beyond the smallest effect that does"},
      {"not_significant", "beyond the smallest effect that counts, but chance could do it (q above its limit)"},
      {"below_noise", "beyond the smallest effect, but within the noise between processes of this row"},
      {"too_few_processes", "fewer than 4 processes of a side"},
      {"budget", "the time was used up before enough processes had run"},
      {"filter_too_long", "too many suspects for one command line: this shift is among the smallest"},
      {"count_changed", "counts are exact: more than the smallest effect that counts"},
      {"count_equal", "equal counts"}};
  const auto at = kTexts.find(code);
  return at == kTexts.end() ? code : at->second;
}

size_t Comparison::count(Verdict verdict) const {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const ComparedRow& r) { return r.verdict == verdict; }));
}

size_t Comparison::compared() const {
  return rows.size() - count(Verdict::error) - count(Verdict::missing) - count(Verdict::added);
}

std::vector<RowPair> pair_rows(const MeasuredRun& base, const MeasuredRun& head, size_t& without_result) {
  const Index of_base(base), of_head(head);
  std::vector<RowPair> pairs;
  without_result = 0;
  for (const MeasuredRow& b : base.rows) {
    if (has_result(b)) {
      if (const MeasuredRow* h = of_head.row(b.name)) {
        pairs.push_back(pair_of(b, *h));
        continue;
      }
      RowPair pair{&b, nullptr, named(b), false};
      pair.row.base = b.value;
      pair.row.base_values = b.values.size();
      const MeasuredRow* failure = of_head.failure(b.job);
      if (!failure)
        decide(pair, Verdict::missing, "not_in_head");
      else if (failure->status == Status::failed)
        decide(pair, Verdict::error, "failed_in_head", failure->reason);
      else
        decide(pair, Verdict::missing, "skipped_in_head", failure->reason);
      pairs.push_back(std::move(pair));
    } else if (b.status != Status::failed && of_head.failure(b.job) &&
               of_head.failure(b.job)->status != Status::failed) {
      ++without_result;
    }
  }
  std::unordered_set<std::string> told;
  for (const RowPair& pair : pairs)
    if (pair.row.code == "failed_in_head") told.insert(pair.row.job);
  for (const MeasuredRow& h : head.rows) {
    if (of_base.row(h.name) && has_result(h)) continue;
    const MeasuredRow* failure = of_base.failure(h.job);
    RowPair pair{nullptr, &h, named(h), false};
    if (has_result(h)) {
      pair.row.head = h.value;
      pair.row.head_values = h.values.size();
      if (!failure)
        decide(pair, Verdict::added, "not_in_base");
      else
        decide(pair, Verdict::added, failure->status == Status::failed ? "failed_in_base" : "skipped_in_base",
               failure->reason);
    } else if (h.status == Status::failed) {
      if (told.contains(h.job)) continue;  // by the rows that base has of this job
      const bool both = failure && failure->status == Status::failed;
      decide(pair, Verdict::error, both ? "failed_in_both" : "failed_in_head", h.reason);
    } else {
      continue;
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

void decide_by_values(RowPair& pair, const CompareRule& rule, bool several_processes) {
  ComparedRow& row = pair.row;
  const MeasuredRow &base = *pair.base, &head = *pair.head;
  row.ratio = results::ratio_interval(head.values, base.values);
  row.p = results::mann_whitney_p(head.values, base.values);
  row.floor = several_processes ? rule.floor : std::max(rule.floor, rule.one_process_floor);
  const auto beyond = [&](double floor) { return row.ratio.value > 1 + floor || row.ratio.value < 1 / (1 + floor); };
  const bool slower = row.ratio.value > 1;
  if (!beyond(rule.floor)) {
    const bool inside = row.ratio.hi <= 1 + rule.floor && row.ratio.lo >= 1 / (1 + rule.floor);
    return inside ? decide(pair, Verdict::same, "within_floor")
                  : decide(pair, Verdict::ambiguous, "interval_beyond_floor");
  }
  if (std::min(row.base_values, row.head_values) < kMinValues)
    return decide(pair, Verdict::ambiguous, "too_few_values");
  if (row.ratio.lo <= 1 && row.ratio.hi >= 1) return decide(pair, Verdict::ambiguous, "interval_contains_1");
  if (base.disturbed || head.disturbed)
    return decide(pair, Verdict::ambiguous, "disturbed",
                  base.disturbed && head.disturbed ? ""
                  : base.disturbed                 ? "in base"
                                                   : "in head");
  if (!beyond(row.floor)) return decide(pair, Verdict::ambiguous, "one_process");
  if (clock_explains(base, head, slower)) return decide(pair, Verdict::ambiguous, "clock");
  decide(pair, slower ? Verdict::slower : Verdict::faster, "beyond_floor");
}

void finish(Comparison& comparison) {
  std::vector<ComparedRow>& rows = comparison.rows;
  const auto shift = [](const ComparedRow& r) { return r.has_ratio() ? std::abs(std::log(r.ratio.value)) : 0.0; };
  std::stable_sort(rows.begin(), rows.end(), [&](const ComparedRow& x, const ComparedRow& y) {
    return x.verdict != y.verdict ? x.verdict < y.verdict : shift(x) > shift(y);
  });
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const ComparedRow*>> groups;
  for (const ComparedRow& r : rows)
    if (r.has_ratio()) groups[{r.family, r.device, r.scope}].push_back(&r);
  comparison.families.clear();
  for (const auto& [key, members] : groups) {
    FamilySum sum{std::get<0>(key), std::get<1>(key), std::get<2>(key), members.size()};
    std::vector<double> ratios;
    for (const ComparedRow* r : members) {
      ratios.push_back(r->ratio.value);
      sum.base += r->base;
      sum.head += r->head;
    }
    sum.geometric_mean = results::geometric_mean(ratios);
    comparison.families.push_back(std::move(sum));
  }
}

Comparison compare_runs(const MeasuredRun& base, const MeasuredRun& head, const CompareRule& rule,
                        const std::vector<std::string>& allowed) {
  Comparison c;
  c.metric = head.metric;
  c.allowed = differences(base, head);
  if (const auto left = not_allowed(c.allowed, allowed); !left.empty())
    throw NotComparable("{} and {} are not comparable: {}. --allow KEY (such as {}) compares them all the same",
                        base.file, head.file, sentence_of(left), left.front().key);
  const auto facts = [](const MeasuredRun& r) { return RunFacts{r.file, r.kind, r.commit, r.started_at, r.processes}; };
  c.base = facts(base);
  c.head = facts(head);
  for (const auto& [side, run] : {std::pair{"base", &base}, std::pair{"head", &head}})
    for (const std::string& w : run->warnings) c.warnings.push_back(fmt::format("{}: {}", side, w));
  if (!base.id.empty() && base.id == head.id)
    c.warnings.push_back(fmt::format("base and head are one run (id {})", base.id));
  const bool several = base.processes > 1 && head.processes > 1;
  std::vector<RowPair> pairs = pair_rows(base, head, c.without_result);
  for (RowPair& pair : pairs) {
    if (!pair.decided) decide_by_values(pair, rule, several);
    c.rows.push_back(std::move(pair.row));
  }
  const auto has_few = [](const ComparedRow& r) {
    return !r.has_ratio() || std::min(r.base_values, r.head_values) < kMinValues;
  };
  if (c.compared() > 0 && std::all_of(c.rows.begin(), c.rows.end(), has_few))
    c.warnings.push_back(
        fmt::format("no row can be SLOWER or FASTER: each has fewer than {} values on a side; measure with "
                    "--repetitions {} or more, or with --processes 8",
                    kMinValues, kMinValues));
  c.method.push_back(
      "The ratio is head / base: the Hodges-Lehmann estimate on logarithms of the values, with the interval that the "
      "exact Mann-Whitney test gives. Where there are too few values for 95 %, the interval is min-max.");
  c.method.push_back(
      several
          ? fmt::format("A value is the median of one process. A row is SLOWER or FASTER beyond {:.0f} % where the "
                        "interval excludes 1. Each row is decided by itself: of 100 unchanged ones a few exclude 1 by "
                        "chance. duet gate corrects for that.",
                        100 * rule.floor)
          : fmt::format("A value is the median of one repetition: the intervals cover one process only. Processes "
                        "differ by layout, clocks and neighbours, so that a row is SLOWER or FASTER only beyond {:.0f} "
                        "%; bench_all --processes 8 measures the spread, and {:.0f} % then suffice.",
                        100 * std::max(rule.floor, rule.one_process_floor), 100 * rule.floor));
  finish(c);
  return c;
}

}  // namespace duet::reports
