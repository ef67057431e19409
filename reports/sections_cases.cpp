// SPDX-License-Identifier: Apache-2.0
// The tables of cases: every pair of a CPU and a GPU result, grouped by who published the shape; families; cases that
// one side alone has.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

constexpr size_t kMaxDetailedRows = 2000;  // longer tables leave out intervals and further cache states
constexpr const char* kOwnSizes = "Sizes chosen for this suite";

// "12 threads" where a choice ran on another number than most.
std::string threads_note(const Choice& choice, int64_t usual) {
  return choice.job->device == Device::cpu && choice.call->threads != usual ? threads_text(choice) : "";
}

void join(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
}

// Op, shape, and below them why this shape: without the source, which heads the rows.
Cell case_cell(const std::string& case_name, const std::string& why, const std::string& more) {
  const size_t op_end = case_name.find('/');
  Cell made{{strong(case_name.substr(0, op_end))}, {}};
  if (op_end != std::string::npos) made.text.push_back(plain(" " + case_text(case_name.substr(op_end + 1))));
  const std::string source = source_of(why);
  std::string note = why.starts_with(source) ? why.substr(source.size()) : why;
  note.erase(0, std::min(note.find_first_not_of(" ,:'"), note.size()));
  join(note, more);
  if (!note.empty()) made.text.push_back(below(muted(note)));
  return made;
}

Cell time_cell(const Series* series) { return series ? cell(seconds(series->summary.median_s)) : cell("–"); }

// What most rows have: it goes into the caption, and rows name only other values.
template <class Row, class Of>
auto usual(const std::vector<const Row*>& rows, Of of) {
  std::map<decltype(of(*rows.front())), size_t> votes;
  for (const Row* row : rows) ++votes[of(*row)];
  return std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

template <class Row>
struct SourceGroup {
  std::string source;  // empty: the suite's own sizes
  std::vector<const Row*> rows;
};

// By source, those with most rows first and the suite's own sizes last; within a group in the order given.
template <class Row, class Why>
std::vector<SourceGroup<Row>> by_source(const std::vector<const Row*>& rows, Why why) {
  std::vector<SourceGroup<Row>> groups;
  std::map<std::string, size_t> index;
  for (const Row* row : rows) {
    const auto [at, is_new] = index.try_emplace(source_of(why(*row)), groups.size());
    if (is_new) groups.push_back({at->first, {}});
    groups[at->second].rows.push_back(row);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    if (a.source.empty() != b.source.empty()) return b.source.empty();
    return a.rows.size() > b.rows.size();
  });
  return groups;
}

template <class Row>
Text group_title(const SourceGroup<Row>& group, const std::string& summary) {
  return {strong(group.source.empty() ? kOwnSizes : group.source),
          muted(fmt::format(" {}{}", count_of(group.rows.size(), "row"), summary))};
}

std::string pair_summary(const SourceGroup<SpeedupRow>& group) {
  std::vector<double> ratios;
  size_t cpu = 0;
  for (const SpeedupRow* row : group.rows) {
    ratios.push_back(row->call_ratio());
    cpu += winner(row->call()) == Winner::cpu;
  }
  return fmt::format(", median by call {}{}", faster_text(results::median(ratios)),
                     cpu == 0 ? "" : fmt::format(", the CPU wins {}", cpu));
}

// The label that all intervals have, or empty where they differ.
std::string common_label(const std::vector<const SpeedupRow*>& rows) {
  std::string label;
  for (const SpeedupRow* row : rows)
    for (const auto& ratio : row->ratio) {
      if (!ratio) continue;
      if (!label.empty() && label != ratio->label) return "";
      label = ratio->label;
    }
  return label;
}

std::vector<Cell> pair_cells(const SpeedupRow& row, const std::string& cache, int64_t threads, const std::string& label,
                             bool detailed) {
  const auto ratio = [&](Scope scope) {
    const auto& interval = row.ratio[static_cast<size_t>(scope)];
    if (!interval) return cell("–");
    Cell made = faster_cell(*interval, label.empty());
    const Span below_it = made.text.back();
    made.text.pop_back();
    if (!detailed) made = {{outcome_span(*interval)}, {}};
    if (const std::string marks = marks_text(row); !marks.empty()) made.text.push_back({" " + marks, Tone::warn});
    if (detailed) made.text.push_back(below_it);
    return made;
  };
  std::string note = cache_text(row) == cache ? "" : cache_text(row) + " cache";
  join(note, threads_note(row.cpu, threads));
  Cell cpu_time = time_cell(row.cpu.call);
  if (row.one_thread) cpu_time.text.push_back(below(muted(seconds(row.one_thread->summary.median_s) + " on 1")));
  return {case_cell(row.case_name, row.cpu.job->why, note),
          Cell{{plain(impl_text(*row.cpu.job)), below(roof_span(*row.cpu.call))}, {}},
          cpu_time,
          Cell{{plain(impl_text(*row.gpu.job)), below(roof_span(*row.gpu.device_time()))}, {}},
          time_cell(row.gpu.kernel),
          ratio(Scope::kernel),
          time_cell(row.gpu.call),
          ratio(Scope::call),
          time_cell(row.gpu.end_to_end),
          ratio(Scope::end_to_end)};
}

Table pair_table(const std::vector<const SpeedupRow*>& rows) {
  const std::string label = common_label(rows);
  const int64_t threads = usual(rows, [](const SpeedupRow& row) { return row.cpu.call->threads; });
  const std::string cache = usual(rows, cache_text);
  const bool detailed = rows.size() <= kMaxDetailedRows;
  const bool one_thread = std::any_of(rows.begin(), rows.end(), [](const SpeedupRow* row) { return row->one_thread; });
  Table table{.caption = {plain(fmt::format(
                  "Best verified implementation of each side. CPU on {}, {} cache, where nothing else is said. {}{} ",
                  count_of(static_cast<size_t>(threads), "thread"), cache,
                  one_thread ? "Below the CPU's time: on 1 thread. " : "",
                  !detailed ? "Other cache states are left out, and the intervals of the ratios; report.csv has every "
                              "time with its interval."
                            : fmt::format("Below a ratio its {}.",
                                          label.empty() ? "interval and what that is" : label + " interval")))},
              .columns = {{"case"},
                          {"of its roof", false, "CPU"},
                          {"time", true, "CPU"},
                          {"of its roof", false, "GPU kernel"},
                          {"time", true, "GPU kernel"},
                          {"against the CPU", true, "GPU kernel"},
                          {"time", true, "GPU call"},
                          {"against the CPU", true, "GPU call"},
                          {"time", true, "GPU with copies"},
                          {"against the CPU", true, "GPU with copies"}},
              .rows = {},
              .groups = {},
              .sortable = true};
  if (std::any_of(rows.begin(), rows.end(), [](const SpeedupRow* row) { return row->weak_cpu; })) {
    table.caption.push_back({"*", Tone::warn});
    table.caption.push_back(
        plain(fmt::format(" the CPU is below {:.0f} % of its own roof: the ratio says little about "
                          "the GPU. ",
                          100 * results::kWeakFraction)));
  }
  if (std::any_of(rows.begin(), rows.end(), [](const SpeedupRow* row) { return row->contested; })) {
    table.caption.push_back({"†", Tone::warn});
    table.caption.push_back(plain(" a suspect job claims to be faster than one of the two."));
  }
  for (const auto& group : by_source(rows, [](const SpeedupRow& row) { return row.cpu.job->why; })) {
    table.groups.push_back({table.rows.size(), group_title(group, pair_summary(group))});
    for (const SpeedupRow* row : group.rows) table.rows.push_back(pair_cells(*row, cache, threads, label, detailed));
  }
  drop_empty_columns(table);
  return table;
}

Table one_sided_table(const std::vector<const OneSidedRow*>& rows) {
  Table table{
      .caption = {plain("Cases with a result on one side only: no ratio.")},
      .columns =
          {{"case"}, {"side"}, {"implementation"}, {"time", true}, {"of its roof"}, {"why nothing on the other side"}},
      .rows = {}};
  for (const OneSidedRow* row : rows)
    table.rows.push_back({case_cell(row->case_name, row->choice.job->why,
                                    row->choice.call->cache == Cache::warm ? "" : to_text(row->choice.call->cache)),
                          cell(to_text(row->device)), cell(impl_text(*row->choice.job)), time_cell(row->choice.call),
                          Cell{{roof_span(*row->choice.device_time())}, {}}, cell(row->no_ratio_reason)});
  return table;
}

Table cpu_table(const std::vector<const OneSidedRow*>& rows) {
  const Cache cache = usual(rows, [](const OneSidedRow& row) { return row.choice.call->cache; });
  const int64_t threads = usual(rows, [](const OneSidedRow& row) { return row.choice.call->threads; });
  const std::string interval = usual(rows, [](const OneSidedRow& row) { return row.choice.call->summary.interval; });
  Table table{
      .caption = {plain(fmt::format("Best verified CPU implementation of each case, on {} and with {} cache where "
                                    "nothing else is said; the interval is {}. ",
                                    count_of(static_cast<size_t>(threads), "thread"), to_text(cache), interval))},
      .columns = {{"case"},
                  {"implementation"},
                  {"time", true},
                  {"interval", true},
                  {"one thread", true},
                  {"rate", true},
                  {"of its roof"},
                  {"ceiling"}},
      .rows = {},
      .groups = {},
      .sortable = true};
  if (std::any_of(rows.begin(), rows.end(), [](const OneSidedRow* row) { return row->weak_cpu; })) {
    table.caption.push_back({"*", Tone::warn});
    table.caption.push_back(plain(fmt::format(" below {:.0f} % of its roof.", 100 * results::kWeakFraction)));
  }
  for (const auto& group : by_source(rows, [](const OneSidedRow& row) { return row.choice.job->why; })) {
    table.groups.push_back({table.rows.size(), group_title(group, "")});
    for (const OneSidedRow* row : group.rows) {
      const Series& call = *row->choice.call;
      const Job& job = *row->choice.job;
      const bool compute = call.roof ? call.roof->bound == Bound::compute : job.bytes == 0;
      std::string note = call.cache == cache ? "" : to_text(call.cache) + " cache";
      join(note, threads_note(row->choice, threads));
      Cell range = cell(seconds(call.summary.lo_s) + " to " + seconds(call.summary.hi_s), Tone::muted);
      if (call.summary.interval != interval) range.text.push_back(below(muted(call.summary.interval)));
      Cell roof{{roof_span(call)}, {}};
      if (row->weak_cpu) roof.text.push_back({"\u00a0*", Tone::warn});
      const double rate = compute ? flop_per_s(job, call) : byte_per_s(job, call);
      table.rows.push_back({case_cell(row->case_name, job.why, note), cell(impl_text(job)), time_cell(&call), range,
                            time_cell(row->one_thread), cell(rate > 0 ? si(rate, compute ? "FLOP/s" : "B/s") : "–"),
                            roof, cell(call.roof ? call.roof->ceiling : "–", Tone::muted)});
    }
  }
  drop_empty_columns(table);
  return table;
}

template <class Row>
std::vector<const Row*> single_ops(const std::vector<Row>& all) {
  std::vector<const Row*> rows;
  for (const Row& row : all)
    if (row.kind() == Kind::op) rows.push_back(&row);
  return rows;
}

}  // namespace

Cell faster_cell(const Interval& ratio, bool with_label) {
  const Winner wins = winner(ratio);
  const bool cpu = wins == Winner::cpu;
  Cell made{{outcome_span(ratio)}, {}};
  if (wins == Winner::gpu) made.text = {strong(times(ratio.value)), plain(" faster")};
  const double lo = cpu ? 1 / ratio.hi : ratio.lo, hi = cpu ? 1 / ratio.lo : ratio.hi;
  made.text.push_back(
      below(muted(significant(lo) + " to " + significant(hi) + (with_label ? ", " + ratio.label : ""))));
  return made;
}

Span outcome_span(const Interval& ratio) {
  const Winner wins = winner(ratio);
  return {outcome_text(ratio), wins == Winner::cpu ? Tone::cpu : wins == Winner::level ? Tone::muted : Tone::plain};
}

Table family_table(const std::vector<FamilyTotal>& totals) {
  Table table{
      .caption = {plain("Per family: total times of the best calls, and, only as a footer, the geometric mean of "
                        "their ratios.")},
      .columns =
          {{"family"}, {"cases", true}, {"CPU total", true}, {"GPU total", true}, {"geometric mean by call", true}},
      .rows = {}};
  for (const FamilyTotal& total : totals)
    table.rows.push_back({cell(total.family), cell(fmt::format("{}", total.cases)), cell(seconds(total.cpu_s)),
                          cell(seconds(total.gpu_s)),
                          cell(faster_text(total.geometric_mean), total.geometric_mean < 1 ? Tone::cpu : Tone::plain)});
  return table;
}

void add_case_tables(const Analysis& analysis, Document& document) {
  auto pairs = single_ops(analysis.speedups);
  if (pairs.size() > kMaxDetailedRows) std::erase_if(pairs, [](const SpeedupRow* row) { return !row->primary; });
  const auto others = single_ops(analysis.one_sided);
  if (!analysis.gpu_measured) {
    Section& section = document.sections.emplace_back(Section{"CPU times", {}});
    section.blocks.push_back({Text{strong(fmt::format("GPU: not measured ({}).", analysis.no_gpu_reason)),
                                   plain(" There is no speedup in this run: each CPU time stands beside its share of "
                                         "the roof of this machine.")}});
    if (others.empty())
      section.blocks.push_back({Text{plain("No CPU case has a verified and plausible result either.")}});
    else
      section.blocks.push_back({cpu_table(others)});
    section.conclusion = conclude_cpu_times(analysis);
    return;
  }
  Section& section = document.sections.emplace_back(Section{"Every case", {}});
  if (pairs.empty()) {
    section.blocks.push_back({Text{plain("No case has a verified and plausible result on both sides.")}});
  } else {
    section.blocks.push_back({pair_table(pairs)});
    section.blocks.push_back({family_table(analysis.families)});
  }
  if (!others.empty()) section.blocks.push_back({one_sided_table(others)});
  section.conclusion = conclude_cases(analysis);
}

}  // namespace duet::reports
