// SPDX-License-Identifier: Apache-2.0
// run_gate() at the end is the table of contents; Gate has its steps in order.
#include "reports/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "reports/format.h"
#include "reports/gate/bench_program.h"
#include "reports/gate/stored_runs.h"

namespace duet::reports {
namespace {

constexpr double kListShare = 0.2;    // of the budget, for the lists of jobs
constexpr double kScreenShare = 0.5;  // of the budget, for the screen: no further process of it starts after that
constexpr double kSpare = 1.3;        // a process starts only where the time is left that the last one took, and more
constexpr double kStart_s = 2;        // what a process takes beside its cases, as a first guess
constexpr size_t kMaxFilter = 100 * 1024;  // bytes: the kernel takes no argument beyond 128 KiB
constexpr size_t kMinValues = 4;           // of each side: with fewer, no test at 5 % can be significant

using Clock = std::chrono::steady_clock;

// One row in all processes of both sides.
struct Row {
  ComparedRow row;
  std::string filter;
  std::vector<double> values[2], clean[2];  // base, head; clean: of undisturbed processes
  std::vector<double> screened[2];
  double wall_s[2] = {0, 0};  // of its repetitions in the first process
  double shift = 0;           // in the screen, of logarithms
  bool decided = false, suspect = false, active = false;
};

enum Side { kBase, kHead };
constexpr const char* kSideNames[] = {"base", "head"};

class Gate {
 public:
  explicit Gate(const GateOptions& options) : options_(options) {
    for (const Side side : {kBase, kHead})
      if (!given(side).program.empty())
        programs_[side].emplace(kSideNames[side], given(side).program, options.arguments, scratch_);
    comparison_.title = "Gate";
    comparison_.metric = options.metric;
  }

  // Says what will run, and for how long at most.
  void announce() {
    const GateRule& rule = options_.rule;
    if (!runs_programs()) return;
    for (const Side side : {kBase, kHead})
      if (programs_[side]) jobs_ = std::max(jobs_, programs_[side]->jobs(options_.filter, limit(kListShare)).size());
    options_.say(
        fmt::format("gate: {}, at most {}: {} processes {} with all of them, then up to {} with the suspects alone; "
                    "the samples of one process take about {} or more",
                    count_of(jobs_, "job"), time_text(options_.budget_s), rule.screen_processes,
                    programs_[kBase] && programs_[kHead] ? "of each program" : "of the program",
                    rule.rounds * rule.round_processes, time_text(samples_of_process_s(jobs_, options_.arguments))));
  }

  // The first run of each side: which rows there are, and whether they can be compared at all.
  void begin() {
    stored_ = load_stored(options_);
    if (!runs_programs()) options_.say("gate: both sides come from files, nothing runs");
    MeasuredRun first[2];
    for (const Side side : {kBase, kHead})
      if (programs_[side]) {
        first[side] = take_first(side, side == kBase && programs_[kHead] ? kScreenShare : 1);
        screen_s_[side] = last_s_;
      }
    if (!programs_[kHead]) first[kHead] = stored_.head.front();
    if (!programs_[kBase]) {
      choose_base(options_, first[kHead], stored_);
      // Of past runs the last, which is the nearest.
      first[kBase] = options_.base.past_runs ? stored_.base.back() : stored_.base.front();
    }
    comparison_.warnings = stored_.warnings;
    comparison_.allowed = differences(first[kBase], first[kHead]);
    require_alike(options_, comparison_.allowed, first[kBase].file, first[kHead].file);
    for (const Side side : {kBase, kHead})
      for (const MeasuredRun& more : stored(side))
        require_alike(options_, differences(first[side], more), first[side].file, more.file);
    fingerprint(first[kHead]);
    const auto facts = [](const MeasuredRun& r) {
      return RunFacts{r.file, r.kind, r.commit, r.started_at, r.processes};
    };
    comparison_.base = facts(first[kBase]);
    comparison_.head = facts(first[kHead]);
    for (RowPair& pair : pair_rows(first[kBase], first[kHead], comparison_.without_result)) {
      Row row;
      row.filter = pair.head ? pair.head->filter : pair.base->filter;
      row.decided = pair.decided;
      if (pair.base) row.wall_s[kBase] = pair.base->wall_s;
      if (pair.head) row.wall_s[kHead] = pair.head->wall_s;
      row.row = std::move(pair.row);
      place_[row.row.name] = rows_.size();
      rows_.push_back(std::move(row));
    }
    for (const Side side : {kBase, kHead})
      if (programs_[side]) {
        add(side, first[side]);
        ++taken_[side];
      } else {
        for (const MeasuredRun& run : stored(side)) add(side, run);
      }
  }

  // By what the first processes took: when the screen will have ended.
  void estimate() {
    double round_s = 0;
    for (const Side side : {kBase, kHead})
      if (programs_[side]) round_s += screen_s_[side];
    if (round_s == 0) return;
    const double more_s = static_cast<double>(options_.rule.screen_processes - 1) * round_s;
    const double room_s = kScreenShare * options_.budget_s - elapsed();
    options_.say(
        fmt::format("gate: one process {} took {}, so the screen takes about {} more{}",
                    programs_[kBase] && programs_[kHead] ? "of each program" : "of the program", time_text(round_s),
                    time_text(std::min(more_s, std::max(0.0, room_s))),
                    more_s > room_s ? ", with fewer processes than planned: half of the budget is for it" : ""));
  }

  void screen() {
    const size_t processes = options_.rule.screen_processes;
    for (size_t i = 1; i < processes; ++i) {
      bool started = true;
      for (const Side side : order(i)) {
        if (!programs_[side]) continue;
        const double needed = kSpare * screen_s_[side];
        if (elapsed() + needed > kScreenShare * options_.budget_s) {
          started = false;
          break;
        }
        try {
          add(side, take(side, options_.filter));
        } catch (const ProgramTimedOut&) {
          if (!budget_ended()) throw;
          out_of_time_ = true;
          started = false;
          break;
        }
        ++taken_[side];
      }
      if (!started) break;
    }
    for (Row& r : rows_) {
      for (const Side side : {kBase, kHead}) r.screened[side] = r.values[side];
      if (r.decided) continue;
      const Evidence e = evidence(r, true);
      r.shift = std::abs(std::log(results::median(e.head) / results::median(e.base)));
      r.suspect = r.active = is_suspect(e, options_.rule);
      // Fresh processes decide: those of the screen chose the suspects.
      for (const Side side : {kBase, kHead})
        if (programs_[side]) {
          r.values[side].clear();
          r.clean[side].clear();
        }
    }
  }

  void confirm() {
    const GateRule& rule = options_.rule;
    options_.say(fmt::format("gate: {} after {:.0f} s", count_of(suspects(), "suspect"), elapsed()));
    if (suspects() == 0) return;
    if (!runs_programs()) {
      decide(true);
      return;
    }
    drop_what_does_not_fit();
    double pair_s = expected_pair_s();
    for (size_t round = 0; round < rule.rounds && active() > 0; ++round) {
      for (size_t i = 0; i < rule.round_processes && !out_of_time_; ++i) {
        if (elapsed() + kSpare * pair_s > options_.budget_s) {
          out_of_time_ = true;
          break;
        }
        const double before = elapsed();
        const std::string filter = filter_of_active();
        try {
          for (const Side side : order(i))
            if (programs_[side]) add(side, take(side, filter));
        } catch (const ProgramTimedOut&) {
          if (!budget_ended()) throw;
          out_of_time_ = true;
        }
        pair_s = elapsed() - before;
      }
      decide(round + 1 == rule.rounds || out_of_time_);
      options_.say(fmt::format("gate: round {} of {}, {} left, {:.0f} s", round + 1, rule.rounds,
                               count_of(active(), "suspect"), elapsed()));
      if (out_of_time_) break;
    }
  }

  Comparison finish() {
    for (Row& r : rows_) {
      if (!r.decided && !r.suspect) {
        r.row.verdict = Verdict::same;
        r.row.code = "not_a_candidate";
        show(r, r.screened);
      }
      comparison_.rows.push_back(std::move(r.row));
    }
    const GateRule& rule = options_.rule;
    comparison_.method = {
        runs_programs()
            ? fmt::format("A value is the median of one process. Rows whose medians differ by more than {:.1f} % in {} "
                          "are suspects; fresh processes decide: up to {} of each side{}.",
                          100 * rule.screen_shift, count_of(std::max(taken_[kBase], taken_[kHead]), "screening run"),
                          rule.rounds * rule.round_processes,
                          programs_[kBase] && programs_[kHead] ? ", in turn (ABBA)"
                                                               : "; the sides did not run at the same time")
            : fmt::format("A value is the median of one process. Rows whose medians differ by more than {:.1f} % are "
                          "suspects, and the same values decide about them.",
                          100 * rule.screen_shift),
        fmt::format(
            "SLOWER or FASTER: exact Mann-Whitney on these values, Benjamini-Hochberg over the suspects of a device "
            "at q = {:.2f}, and a shift beyond {:.0f} % and {:.0f} standard deviations of its estimate.",
            rule.q, 100 * rule.min_effect, rule.noise_factor)};
    if (out_of_time_ || dropped_)
      comparison_.warnings.push_back(fmt::format("the budget of {} was used up", time_text(options_.budget_s)));
    if (!runs_programs())
      if (std::string reason = too_few(stored_, rule.q); !reason.empty())
        comparison_.warnings.push_back(std::move(reason));
    reports::finish(comparison_);
    return std::move(comparison_);
  }

 private:
  bool runs_programs() const { return programs_[kBase] || programs_[kHead]; }
  const std::vector<MeasuredRun>& stored(Side side) const { return side == kBase ? stored_.base : stored_.head; }
  const GateSide& given(Side side) const { return side == kBase ? options_.base : options_.head; }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double limit(double share = 1) const {
    const double left = std::max(0.1, options_.budget_s - elapsed());
    return std::min(options_.process_limit_s.value_or(left), share * left);
  }
  static std::string time_text(double time_s) {
    return time_s < 90 ? fmt::format("{:.3g} s", time_s) : fmt::format("{:.3g} min", time_s / 60);
  }
  // Base and head in turn: AB BA AB BA.
  static std::vector<Side> order(size_t i) {
    return i % 2 == 0 ? std::vector{kBase, kHead} : std::vector{kHead, kBase};
  }

  void fingerprint(const MeasuredRun& run) {
    for (const auto& [key, value] : run.keys)
      if (key == "machine.fingerprint")
        if (const auto at = options_.noise.find(value); at != options_.noise.end()) noise_ = &at->second;
  }

  // Of a side, with all jobs: without it there is nothing to decide about.
  MeasuredRun take_first(Side side, double share) {
    const bool by_budget = !options_.process_limit_s || *options_.process_limit_s > limit(share);
    try {
      return take(side, options_.filter, share);
    } catch (const ProgramTimedOut&) {
      if (!by_budget) throw;
      throw Error(
          "gate: the budget of {} is too small for {}: the first process of {} did not end in its share of "
          "it; narrow --filter or raise --budget",
          time_text(options_.budget_s), count_of(jobs_, "job"), kSideNames[side]);
    }
  }

  MeasuredRun take(Side side, const std::string& filter, double share = 1) {
    return programs_[side]->run(filter, options_.metric, limit(share), last_s_);
  }

  // Whether the process was ended by the end of the budget, and not by a limit of its own.
  bool budget_ended() const { return elapsed() >= options_.budget_s; }

  // A file may hold several processes; a process of the gate is one value.
  void add(Side side, const MeasuredRun& run) {
    for (const MeasuredRow& measured : run.rows) {
      const auto at = place_.find(measured.values.empty() ? failed_row(measured) : measured.name);
      if (at == place_.end()) continue;
      Row& r = rows_[at->second];
      if (measured.values.empty() || !measured.reason.empty()) {
        if (!r.decided && side == kHead && measured.status == results::Status::failed) {
          r.decided = true;
          r.active = r.suspect = false;
          r.row.verdict = Verdict::error;
          r.row.code = "failed_in_head";
          r.row.detail = measured.reason;
        }
        continue;
      }
      const std::vector<double> values = run.processes > 1 ? measured.values : std::vector{measured.value};
      r.values[side].insert(r.values[side].end(), values.begin(), values.end());
      if (!measured.disturbed) r.clean[side].insert(r.clean[side].end(), values.begin(), values.end());
    }
  }

  // A job that failed has no series: the first row of that job stands for it.
  std::string failed_row(const MeasuredRow& measured) const {
    for (const Row& r : rows_)
      if (r.row.job == measured.job) return r.row.name;
    return "";
  }

  Evidence evidence(const Row& r, bool all) const {
    Evidence e;
    const size_t enough = options_.rule.min_clean_processes;
    const bool clean = !all && r.clean[kBase].size() >= enough && r.clean[kHead].size() >= enough;
    e.base = clean ? r.clean[kBase] : r.values[kBase];
    e.head = clean ? r.clean[kHead] : r.values[kHead];
    if (noise_)
      if (const auto at = noise_->find(r.row.name); at != noise_->end()) e.known_noise = at->second.noise;
    return e;
  }

  size_t suspects() const {
    return static_cast<size_t>(std::count_if(rows_.begin(), rows_.end(), [](const Row& r) { return r.suspect; }));
  }
  size_t active() const {
    return static_cast<size_t>(std::count_if(rows_.begin(), rows_.end(), [](const Row& r) { return r.active; }));
  }

  // One argument cannot have any length: the suspects with the smallest shifts wait for another run.
  std::string filter_of_active() {
    std::set<std::string> filters;
    const auto collect = [&] {
      filters.clear();
      size_t length = 0;
      for (const Row& r : rows_)
        if (r.active && filters.insert(r.filter).second) length += r.filter.size() + 1;
      return length;
    };
    size_t dropped = 0;
    for (size_t length = collect(); length > kMaxFilter && filters.size() > 1; ++dropped) {
      Row& weakest = weakest_active();
      const std::string filter = weakest.filter;
      leave_undecided(weakest, "filter_too_long");
      if (std::none_of(rows_.begin(), rows_.end(), [&](const Row& r) { return r.active && r.filter == filter; })) {
        filters.erase(filter);
        length -= filter.size() + 1;
      }
    }
    if (dropped > 0)
      comparison_.warnings.push_back(fmt::format(
          "the names of all suspects are longer than a command line takes: {} with the smallest shifts stay undecided",
          count_of(dropped, "row")));
    std::string joined;
    for (const std::string& f : filters) joined += (joined.empty() ? "" : "|") + f;
    return joined;
  }

  // A process with the suspects alone, by what their jobs took in the first process.
  double expected_pair_s() const {
    std::set<std::string> of_suspects;
    for (const Row& r : rows_)
      if (r.active) of_suspects.insert(r.filter);
    double total = 0;
    for (const Side side : {kBase, kHead}) {
      if (!programs_[side]) continue;
      double all_s = 0, suspects_s = 0;
      for (const Row& r : rows_) {
        all_s += r.wall_s[side];
        if (of_suspects.contains(r.filter)) suspects_s += r.wall_s[side];
      }
      const double share = all_s > 0 ? suspects_s / all_s : 1;
      total += std::min(screen_s_[side], kStart_s + share * screen_s_[side]);
    }
    return total;
  }

  Row& weakest_active() {
    Row* weakest = nullptr;
    for (Row& r : rows_)
      if (r.active && (!weakest || r.shift < weakest->shift)) weakest = &r;
    return *weakest;
  }

  void leave_undecided(Row& r, const char* code) {
    r.active = false;
    r.decided = true;
    r.row.verdict = Verdict::ambiguous;
    r.row.code = code;
    show(r, r.screened);
  }

  // Where not even the first round fits into what is left, the suspects with the smallest shifts wait for another run.
  void drop_what_does_not_fit() {
    const auto rounds = static_cast<double>(options_.rule.round_processes);
    while (active() > 1 && rounds * expected_pair_s() > options_.budget_s - elapsed()) {
      leave_undecided(weakest_active(), "budget");
      dropped_ = true;
    }
  }

  void show(Row& r, const std::vector<double> (&values)[2]) const {
    r.row.ratio = results::ratio_interval(values[kHead], values[kBase]);
    r.row.base = results::median(values[kBase]);
    r.row.head = results::median(values[kHead]);
    r.row.base_values = values[kBase].size();
    r.row.head_values = values[kHead].size();
  }

  // Decides about the rows that are still suspects, by device.
  void decide(bool last_round) {
    std::map<std::string, std::vector<Row*>> by_device;
    std::map<std::string, size_t> tests;
    for (Row& r : rows_) {
      if (r.suspect) ++tests[r.row.device];
      if (r.active) by_device[r.row.device].push_back(&r);
    }
    for (auto& [device, rows] : by_device) {
      std::vector<Row*> enough;
      std::vector<Evidence> all;
      for (Row* r : rows) {
        Evidence e = evidence(*r, false);
        if (std::min(e.base.size(), e.head.size()) < kMinValues) {
          if (!last_round) continue;
          leave_undecided(*r, out_of_time_ ? "budget" : "too_few_processes");
          if (!e.base.empty() && !e.head.empty()) show(*r, r->values);
          continue;
        }
        enough.push_back(r);
        all.push_back(std::move(e));
      }
      const std::vector<Ruling> rulings = rule_on(all, tests[device], options_.rule, last_round);
      for (size_t i = 0; i < enough.size(); ++i) {
        Row& r = *enough[i];
        const Ruling& ruling = rulings[i];
        const std::vector<double> values[2] = {all[i].base, all[i].head};
        show(r, values);
        r.row.ratio = ruling.ratio;
        r.row.p = ruling.p;
        r.row.q = ruling.q;
        r.row.floor = ruling.floor;
        r.row.verdict = ruling.verdict;
        r.row.code = out_of_time_ && ruling.verdict == Verdict::ambiguous ? "budget" : ruling.code;
        if (!ruling.go_on) {
          r.active = false;
          r.decided = true;
        }
      }
    }
  }

  const GateOptions& options_;
  const Clock::time_point start_ = Clock::now();
  ScratchFolder scratch_;
  std::optional<BenchProgram> programs_[2];
  StoredRuns stored_;
  const std::map<std::string, results::NoiseRow>* noise_ = nullptr;
  Comparison comparison_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> place_;  // of rows, by name
  double screen_s_[2] = {0, 0}, last_s_ = 0;
  size_t taken_[2] = {0, 0}, jobs_ = 0;
  bool out_of_time_ = false, dropped_ = false;
};

}  // namespace

Comparison run_gate(const GateOptions& options) {
  Gate gate(options);
  gate.announce();
  gate.begin();
  gate.estimate();
  gate.screen();
  gate.confirm();
  return gate.finish();
}

}  // namespace duet::reports
