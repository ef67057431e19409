// SPDX-License-Identifier: Apache-2.0
// The sections that open with a chart: speedups, rooflines, bandwidth, break-even. Models: sections_steps.cpp.
#include <fmt/format.h>

#include <map>

#include "reports/answer.h"
#include "reports/charts.h"
#include "reports/format.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

Block paragraph(std::string text) { return {Text{plain(std::move(text))}}; }

}  // namespace

void add_charts(std::vector<Chart> charts, Section& section) {
  if (charts.empty()) return;
  section.blocks.push_back({Figures{{charts.front()}}});
  for (size_t i = 1; i < charts.size(); ++i)
    section.blocks.push_back(
        {Fold{fmt::format("Chart continued, part {} of {}", i + 1, charts.size()), {{Figures{{charts[i]}}}}}});
}

namespace {

void add_folded(std::vector<CaseCharts> groups, Section& section) {
  for (CaseCharts& group : groups) {
    Fold fold{std::move(group.summary), {}};
    for (Chart& chart : group.charts) fold.blocks.push_back({Figures{{std::move(chart)}}});
    section.blocks.push_back({std::move(fold)});
  }
}

void add_speedup(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (analysis.families.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Speedup", {}});
  section.blocks.push_back(paragraph(
      "Best verified CPU time of a call divided by the best verified GPU time of the same case. The CPU's data is in "
      "host memory and the GPU's resident; with copies, both transfers are added."));
  if (auto families = family_chart(analysis)) section.blocks.push_back({Figures{{std::move(*families)}}});
  add_folded(speedup_charts(analysis, options.rows_per_chart), section);
  section.conclusion = conclude_speedups(analysis);
}

void add_ceiling_sections(const Analysis& analysis, const ReportOptions& options, Document& document) {
  if (!analysis.rooflines.empty()) {
    Section& section = document.sections.emplace_back(Section{"Roofline", {}});
    section.blocks.push_back(paragraph(
        "Best job of each case against the ceilings measured in this run; dashed lines are the compute ceilings of "
        "other precisions. Suspect jobs are drawn in red."));
    Figures figures;
    std::map<Device, size_t> number;
    for (const Roofline& roofline : analysis.rooflines)
      figures.charts.push_back(roofline_chart(roofline, ++number[roofline.device]));
    section.blocks.push_back({std::move(figures)});
    section.conclusion = conclude_rooflines(analysis);
  }
  if (!analysis.bandwidth.empty()) {
    Section& section = document.sections.emplace_back(Section{"Bandwidth", {}});
    section.blocks.push_back(paragraph(fmt::format(
        "Memory-bound cases: compulsory traffic divided by time, as a share of the ceiling of the same device and "
        "access pattern. Over {:.0f} % the byte count or the timing is wrong: no result.",
        100 * results::kSuspectFraction)));
    if (auto families = bandwidth_family_chart(analysis)) section.blocks.push_back({Figures{{std::move(*families)}}});
    add_folded(bandwidth_charts(analysis, options.rows_per_chart), section);
    section.conclusion = conclude_bandwidth(analysis);
  }
}

Table break_even_table(const Analysis& analysis) {
  Table table{.caption = {plain(analysis.gpu_measured ? "The GPU is faster from this size on."
                                                      : "Times of a CPU call at the smallest and the largest size.")},
              .columns = {{"op"}, {"sizes"}, {"smallest", true, "CPU time"}, {"largest", true, "CPU time"}},
              .rows = {}};
  if (analysis.gpu_measured) {
    table.columns.push_back({"data resident", false, "GPU ahead"});
    table.columns.push_back({"with copies", false, "GPU ahead"});
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
        "training step or an inference, the curves show the time of one sample."));
  else
    section.blocks.push_back(
        {Text{strong(fmt::format("No GPU in this run ({}).", analysis.no_gpu_reason)),
              plain(" There is no break-even: the curves are the CPU's alone, over the batch of a model as the time of "
                    "one sample.")}});
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
  section.conclusion = conclude_break_even(analysis);
}

}  // namespace

void add_results(const Analysis& analysis, const ReportOptions& options, Document& document) {
  add_speedup(analysis, options, document);
  add_steps(analysis, options, document);
  add_inferences(analysis, document);
  add_ceiling_sections(analysis, options, document);
  add_break_even(analysis, document);
  add_fusions(analysis, document);
  add_libraries(analysis, document);
  add_latencies(analysis, document);
  add_studies(analysis, document);
  add_case_tables(analysis, document);
}

}  // namespace duet::reports
