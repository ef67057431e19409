// SPDX-License-Identifier: Apache-2.0
// The sections with results: speedup or CPU times, rooflines, bandwidth, break-even, training steps.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

Block paragraph(std::string text) { return {Text{plain(std::move(text))}}; }

// The first chart is visible, its continuations are folded.
void add_charts(std::vector<Chart> charts, Section& section) {
  if (charts.empty()) return;
  section.blocks.push_back({Figures{{charts.front()}}});
  for (size_t i = 1; i < charts.size(); ++i)
    section.blocks.push_back(
        {Fold{fmt::format("Chart continued, part {} of {}", i + 1, charts.size()), {{Figures{{charts[i]}}}}}});
}

void add_folded(std::vector<CaseCharts> groups, Section& section) {
  for (CaseCharts& group : groups) {
    Fold fold{std::move(group.summary), {}};
    for (Chart& chart : group.charts) fold.blocks.push_back({Figures{{std::move(chart)}}});
    section.blocks.push_back({std::move(fold)});
  }
}

Cell case_cell(const std::string& case_name, const std::string& more) {
  const size_t op_end = case_name.find('/', case_name.starts_with("step/") ? 5 : 0);  // a model is part of the name
  Cell made{{strong(case_name.substr(0, op_end))}, {}};
  std::string rest = op_end == std::string::npos ? "" : case_text(case_name.substr(op_end + 1));
  if (!more.empty()) rest += (rest.empty() ? "" : ", ") + more;
  if (!rest.empty()) made.text.push_back(below(muted(rest)));
  return made;
}

// Implementation, and below it the share of the roof; the threads where they are not the usual number.
Cell side_cell(const Choice& choice, int64_t usual_threads = 0) {
  Cell made{{plain(choice.job->impl), below(roof_span(*choice.device_time()))}, {}};
  const std::string threads = threads_text(choice);
  if (!threads.empty() && choice.call->threads != usual_threads) made.text.push_back(muted(", " + threads));
  return made;
}

Cell time_cell(const Series* series) { return series ? cell(seconds(series->summary.median_s)) : cell("–"); }

std::string range_text(const Interval& interval) {
  return significant(interval.lo) + " to " + significant(interval.hi);
}

// The most frequent value: it goes into the caption, and rows name only other values.
template <class Row, class Of>
auto usual(const std::vector<Row>& rows, Of of) {
  std::map<decltype(of(rows.front())), size_t> votes;
  for (const Row& row : rows) ++votes[of(row)];
  return std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

// The label that all intervals have, or empty where they differ.
std::string common_label(const std::vector<SpeedupRow>& rows) {
  std::string label;
  for (const SpeedupRow& row : rows)
    for (const auto& ratio : row.ratio) {
      if (!ratio) continue;
      if (!label.empty() && label != ratio->label) return "";
      label = ratio->label;
    }
  return label;
}

Table speedup_table(const std::vector<SpeedupRow>& rows) {
  const std::string label = common_label(rows);
  const int64_t threads = usual(rows, [](const SpeedupRow& row) { return row.cpu.call->threads; });
  const std::string cache = usual(rows, cache_text);
  Table table{
      .caption = {plain("Absolute times of both sides, the ratio and its " +
                        (label.empty() ? "interval, named beside it. " : label + " interval. ")),
                  {"*", Tone::warn},
                  plain(fmt::format(" the CPU is below {:.0f} % of its own roof: the ratio says little about the GPU. ",
                                    100 * results::kWeakFraction)),
                  {"†", Tone::warn},
                  plain(fmt::format(" a suspect job claims to be faster than one of the two. Where nothing else is "
                                    "said: {} cache, CPU on {}, its one-thread time below. Sorted by the "
                                    "call's speedup.",
                                    cache, count_of(static_cast<size_t>(threads), "thread")))},
      .columns = {{"case"},
                  {"CPU, of its roof"},
                  {"call", true},
                  {"GPU, of its roof"},
                  {"kernel", true},
                  {"speedup", true},
                  {"call", true},
                  {"speedup", true},
                  {"end to end", true},
                  {"speedup", true}},
      .rows = {}};
  for (const SpeedupRow& row : rows) {
    std::vector<Cell> cells = {case_cell(row.case_name, cache_text(row) == cache ? "" : cache_text(row)),
                               side_cell(row.cpu, threads), time_cell(row.cpu.call), side_cell(row.gpu)};
    if (row.one_thread) cells[2].text.push_back(below(muted(seconds(row.one_thread->summary.median_s) + " on 1")));
    for (const Scope scope : kScopes) {
      const auto& ratio = row.ratio[static_cast<size_t>(scope)];
      cells.push_back(time_cell(row.gpu.at(scope)));
      cells.push_back(ratio ? Cell{{strong(times(ratio->value))}, {}} : cell("–"));
      if (!ratio) continue;
      if (const std::string marks = marks_text(row); !marks.empty())
        cells.back().text.push_back({" " + marks, Tone::warn});
      cells.back().text.push_back(below(muted(range_text(*ratio) + (label.empty() ? ", " + ratio->label : ""))));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table family_table(const std::vector<FamilyTotal>& totals) {
  Table table{
      .caption = {plain("Per family: total times of the best calls, and, only as a footer, the geometric mean of "
                        "their ratios.")},
      .columns = {{"family"},
                  {"cases", true},
                  {"CPU total", true},
                  {"GPU total", true},
                  {"geometric mean of call speedups", true}},
      .rows = {}};
  for (const FamilyTotal& total : totals)
    table.rows.push_back({cell(total.family), cell(fmt::format("{}", total.cases)), cell(seconds(total.cpu_s)),
                          cell(seconds(total.gpu_s)), cell(times(total.geometric_mean))});
  return table;
}

Table one_sided_table(const std::vector<OneSidedRow>& rows) {
  Table table{.caption = {plain("Cases with a result on one side only: no ratio.")},
              .columns = {{"case"},
                          {"side"},
                          {"implementation, of its roof"},
                          {"call", true},
                          {"why nothing on the other side"}},
              .rows = {}};
  for (const OneSidedRow& row : rows)
    table.rows.push_back({case_cell(row.case_name, to_text(row.choice.call->cache)), cell(to_text(row.device)),
                          side_cell(row.choice), time_cell(row.choice.call), cell(row.no_ratio_reason)});
  return table;
}

Table cpu_table(const std::vector<OneSidedRow>& rows) {
  const Cache cache = usual(rows, [](const OneSidedRow& row) { return row.choice.call->cache; });
  const std::string interval = usual(rows, [](const OneSidedRow& row) { return row.choice.call->summary.interval; });
  Table table{.caption = {plain("Best verified CPU implementation of each case: median call time and the share of "
                                "the roof measured in this run. "),
                          {"*", Tone::warn},
                          plain(fmt::format(" below {:.0f} % of it. Where nothing else is said: {} cache; "
                                            "the interval is {}.",
                                            100 * results::kWeakFraction, to_text(cache), interval))},
              .columns = {{"case"},
                          {"implementation"},
                          {"threads", true},
                          {"call", true},
                          {"interval", true},
                          {"one thread", true},
                          {"rate", true},
                          {"of its roof"},
                          {"ceiling"}},
              .rows = {}};
  for (const OneSidedRow& row : rows) {
    const Series& call = *row.choice.call;
    const Job& job = *row.choice.job;
    const bool compute = call.roof ? call.roof->bound == Bound::compute : job.bytes == 0;
    Cell range = cell(seconds(call.summary.lo_s) + " to " + seconds(call.summary.hi_s), Tone::muted);
    if (call.summary.interval != interval) range.text.push_back(below(muted(call.summary.interval)));
    Cell roof{{roof_span(call)}, {}};
    if (row.weak_cpu) roof.text.push_back({"\u00a0*", Tone::warn});
    table.rows.push_back({case_cell(row.case_name, call.cache == cache ? "" : to_text(call.cache)), cell(job.impl),
                          cell(fmt::format("{}", call.threads)), time_cell(&call), range,
                          call.threads == 1 ? cell("same") : time_cell(row.one_thread),
                          cell(compute ? si(flop_per_s(job, call), "FLOP/s") : si(byte_per_s(job, call), "B/s")), roof,
                          call.roof ? cell(call.roof->ceiling, Tone::muted) : cell("–")});
  }
  return table;
}

void add_speedup(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (!analysis.gpu_measured) {
    Section& section = document.sections.emplace_back(Section{"CPU times", {}});
    section.blocks.push_back({Text{strong(fmt::format("GPU: not measured ({}).", analysis.no_gpu_reason)),
                                   plain(" There is no speedup in this run: each CPU time stands beside its share of "
                                         "the roof of this machine.")}});
    if (analysis.one_sided.empty())
      section.blocks.push_back(paragraph("No CPU case has a verified and plausible result either."));
    else
      section.blocks.push_back({cpu_table(analysis.one_sided)});
    return;
  }
  Section& section = document.sections.emplace_back(Section{"Speedup by scope", {}});
  if (analysis.speedups.empty()) {
    section.blocks.push_back(paragraph("No case has a verified and plausible result on both sides."));
  } else {
    section.blocks.push_back(paragraph(
        "Best verified CPU time of a call divided by the best verified GPU time of the same case. The CPU's data is in "
        "host memory and the GPU's resident, except end to end, which adds both copies. Intervals: of the ratio, "
        "within this run."));
    if (auto families = family_chart(analysis)) section.blocks.push_back({Figures{{std::move(*families)}}});
    add_folded(speedup_charts(analysis, options.rows_per_chart), section);
    section.blocks.push_back({speedup_table(analysis.speedups)});
    section.blocks.push_back({family_table(analysis.families)});
  }
  if (!analysis.one_sided.empty()) section.blocks.push_back({one_sided_table(analysis.one_sided)});
}

void add_ceiling_sections(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (!analysis.rooflines.empty()) {
    Section& section = document.sections.emplace_back(Section{"Roofline", {}});
    section.blocks.push_back(paragraph(
        "Best job of each case against the ceilings measured in this run; dashed lines are the compute ceilings of "
        "other precisions. Suspect jobs are drawn in red."));
    Figures figures;
    for (const Roofline& roofline : analysis.rooflines) figures.charts.push_back(roofline_chart(roofline));
    section.blocks.push_back({std::move(figures)});
  }
  if (!analysis.bandwidth.empty()) {
    Section& section = document.sections.emplace_back(Section{"Bandwidth", {}});
    section.blocks.push_back(paragraph(fmt::format(
        "Memory-bound cases: compulsory traffic divided by time, as a share of the ceiling of the same device and "
        "access pattern. Over {:.0f} % the byte count or the timing is wrong: no result.",
        100 * results::kSuspectFraction)));
    if (auto families = bandwidth_family_chart(analysis)) section.blocks.push_back({Figures{{std::move(*families)}}});
    add_folded(bandwidth_charts(analysis, options.rows_per_chart), section);
  }
}

Table break_even_table(const Analysis& analysis) {
  Table table{.caption = {plain(analysis.gpu_measured ? "The GPU is faster from this size on."
                                                      : "Times of a CPU call at the smallest and the largest size.")},
              .columns = {{"op"}, {"sizes"}, {"CPU, smallest", true}, {"CPU, largest", true}},
              .rows = {}};
  if (analysis.gpu_measured) {
    table.columns.push_back({"break-even, resident"});
    table.columns.push_back({"with copies"});
  }
  for (const BreakEvenRow& row : analysis.break_evens) {
    const Sweep& sweep = *row.sweep;
    Cell op{{strong(sweep.op)}, {}};
    if (const std::string rest = fixed_text(sweep); !rest.empty()) op.text.push_back(below(muted(rest)));
    std::string sizes;
    for (const SweepPoint& point : sweep.points)
      sizes += (sizes.empty() ? "" : ", ") + size_text(static_cast<double>(point.size));
    const auto time = [](const std::optional<double>& time_s) { return cell(time_s ? seconds(*time_s) : "–"); };
    table.rows.push_back(
        {op, cell(sweep.size_name + " = " + sizes), time(sweep.points.front().cpu_s), time(sweep.points.back().cpu_s)});
    if (!analysis.gpu_measured) continue;
    table.rows.back().push_back(cell(break_even_text(row.resident, sweep.size_name)));
    table.rows.back().push_back(cell(break_even_text(row.with_copies, sweep.size_name)));
  }
  return table;
}

void add_break_even(const Analysis& analysis, Document& document) {
  if (analysis.break_evens.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Break-even", {}});
  if (analysis.gpu_measured)
    section.blocks.push_back(paragraph(
        "The smallest size from which the GPU stays faster, with resident data and with copies, between which "
        "measured sizes it overtakes. \"never\": the CPU is faster at the largest size measured. Over the batch of a "
        "training step, the "
        "curves show the time of one sample."));
  else
    section.blocks.push_back(
        {Text{strong(fmt::format("No GPU in this run ({}).", analysis.no_gpu_reason)),
              plain(" There is no break-even: the curves are the CPU's alone, over the batch of a training step as the "
                    "time of one sample.")}});
  // Charts of models and a few others are visible, the rest is folded.
  constexpr size_t kMaxVisible = 6;
  Figures figures, folded;
  for (const BreakEvenRow& row : analysis.break_evens) {
    const size_t number = figures.charts.size() + folded.charts.size() + 1;
    auto& charts = row.of_model() || number <= kMaxVisible ? figures.charts : folded.charts;
    charts.push_back(break_even_chart(row, number));
  }
  section.blocks.push_back({std::move(figures)});
  if (!folded.charts.empty())
    section.blocks.push_back({Fold{count_of(folded.charts.size(), "more chart"), {{std::move(folded)}}}});
  section.blocks.push_back({break_even_table(analysis)});
}

std::string percent_of_step(double time_s, const StepRow& row) {
  return fmt::format("{:+.1f} %", 100 * time_s / row.step_s);
}

Cell amounts_cell(const Amounts& amounts) {
  Cell made;
  for (const auto& [name, time_s] : amounts) {
    made.text.push_back(plain(unbroken(name + " " + seconds(time_s))));
    made.text.back().new_line = made.text.size() > 1;
  }
  return made;
}

Cell throughput_cell(const StepRow& row) {
  const Step& step = row.step();
  if (step.samples == 0) return cell("–");
  const auto rate = [&](int64_t count) { return si(static_cast<double>(count) / row.step_s, ""); };
  Cell made = cell(rate(step.samples) + " samples/s");
  if (step.tokens) made.text.push_back(below(plain(rate(*step.tokens) + " tokens/s")));
  return made;
}

Cell residual_cell(const StepRow& row) {
  Cell made = cell(percent_of_step(row.residual_s(), row), row.problem.empty() ? Tone::plain : Tone::bad);
  if (row.has_phases())
    made.text.push_back(below(muted(fmt::format("{} + {}", percent_of_step(row.within_phases_s(), row),
                                                percent_of_step(row.between_phases_s(), row)))));
  return made;
}

void add_steps(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (analysis.steps.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Training step", {}});
  section.blocks.push_back(paragraph(
      "A whole step beside its phases and its nodes, each timed by itself and added up. The residual is what the sum "
      "of "
      "the nodes does not explain: positive, or negative where nodes overlap or find their data in a cache. It has two "
      "terms: what the phases take beyond their nodes (launches, gaps, caches that another node has filled), and what "
      "the step takes beyond its phases, each of which was repeated with the others in between (the pause between "
      "them, "
      "and whatever else differed between the two timings)."));
  add_charts(step_charts(analysis.steps, options.rows_per_chart), section);
  Table table{
      .caption = {plain("Median call time of a step. Below the residual: beyond the nodes within phases + beyond "
                        "the phases.")},
      .columns = {{"step"},
                  {"side"},
                  {"step", true},
                  {"throughput", true},
                  {"phases"},
                  {"sum of nodes", true},
                  {"residual", true},
                  {"peak memory", true},
                  {"implementations"}},
      .rows = {}};
  for (const StepRow& row : analysis.steps) {
    const results::Step& step = row.step();
    const size_t ops = step.implementations.size();
    Cell implementations = cell(ops > 0 ? count_of(ops, "op") : "–");
    for (const auto& [op, impl] : step.implementations) implementations.folded.push_back(op + ": " + impl);
    const size_t name_end = row.model.find(' ');
    Cell name{{strong(row.model.substr(0, name_end))}, {}};
    if (name_end != std::string::npos) name.text.push_back(below(muted(row.model.substr(name_end + 1))));
    if (!row.problem.empty()) name.text.push_back(below({row.problem, Tone::bad}));
    table.rows.push_back({name, cell(row.label), cell(seconds(row.step_s)), throughput_cell(row),
                          step.phases_s.empty() ? cell("–") : amounts_cell(step.phases_s), cell(seconds(row.sum_s)),
                          residual_cell(row), cell(bytes_text(static_cast<double>(step.peak_memory_bytes))),
                          implementations});
  }
  section.blocks.push_back({std::move(table)});
}

}  // namespace

void add_results(const Analysis& analysis, const ReportOptions& options, Document& document) {
  add_speedup(analysis, options, document);
  add_ceiling_sections(analysis, options, document);
  add_break_even(analysis, document);
  add_steps(analysis, options, document);
}

}  // namespace duet::reports
