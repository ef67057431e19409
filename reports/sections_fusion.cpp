// SPDX-License-Identifier: Apache-2.0
// The section on what fusion buys: fused ops beside the separate ops that they stand for.
#include <fmt/format.h>

#include "reports/format.h"
#include "reports/join.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

// "1.31×", in its tone, and below it the interval with what that is.
Cell ratio_cell(const Interval& ratio) {
  const bool level = ratio.lo <= 1 && ratio.hi >= 1;
  const Tone tone = level ? Tone::muted : ratio.value < 1 ? Tone::warn : Tone::plain;
  const std::string interval = fmt::format("{} to {}, {}", significant(ratio.lo), significant(ratio.hi), ratio.label);
  return Cell{{{times(ratio.value) + (level ? ", level" : ""), tone}, below(muted(interval))}, {}};
}

std::string conclude(const Analysis& analysis) {
  std::string text;
  for (const FusionTotal& total : analysis.fusion_totals)
    text +=
        fmt::format("{} {} the time of {} on the {} ({})", text.empty() ? "" : ",", times(total.geometric_mean),
                    total.op, named_of(to_text(total.device), total.machine), count_of(total.ratios.size(), "case"));
  return text.empty() ? "" : "In the geometric mean separate ops take" + text + ".";
}

}  // namespace

void add_fusions(const Analysis& analysis, Document& document) {
  if (analysis.fusions.empty()) return;
  Section& section = document.sections.emplace_back(Section{"What fusion buys", {}});
  section.blocks.push_back({Text{plain(
      "A fused op beside the separate ops that it stands for, one after the other (`unfused`). These are our tuned "
      "ones, so that their time over that of our tuned fused op is what fusion alone buys; the fastest fused "
      "implementation may have another algorithm as well. Times are of calls; above 1 the fused op is faster.")}});
  Table table{.caption = {plain("Below a ratio its interval. The fastest fused implementation stands where it is "
                                "another than the tuned one.")},
              .columns = {{"case"},
                          {"side"},
                          {"separate ops", true},
                          {"time", true, "fused, tuned"},
                          {"separate ÷ fused", true, "fused, tuned"},
                          {"implementation", false, "fused, fastest"},
                          {"time", true, "fused, fastest"},
                          {"separate ÷ fused", true, "fused, fastest"}},
              .rows = {}};
  for (const FusionRow& row : analysis.fusions) {
    const auto time = [](const Choice& choice) { return cell(seconds(choice.call->summary.median_s)); };
    Cell name = cell(case_text(row.case_name));
    if (row.unfused.call->cache != Cache::warm)
      name.text.push_back(below(muted(to_text(row.unfused.call->cache) + " cache")));
    std::vector<Cell> cells{name, cell(to_text(row.unfused.job->device)), time(row.unfused),
                            row.tuned ? time(*row.tuned) : cell("–"), row.ratio ? ratio_cell(*row.ratio) : cell("–")};
    if (row.tuned && row.tuned->job == row.fastest.job)
      cells.insert(cells.end(), 3, cell("–"));
    else
      cells.insert(cells.end(), {cell(impl_text(*row.fastest.job)), time(row.fastest), ratio_cell(row.fastest_ratio)});
    table.rows.push_back(std::move(cells));
  }
  drop_empty_columns(table);
  constexpr size_t kMaxVisible = 20;
  Block block{std::move(table)};
  if (analysis.fusions.size() > kMaxVisible)
    section.blocks.push_back({Fold{count_of(analysis.fusions.size(), "row"), {std::move(block)}}});
  else
    section.blocks.push_back(std::move(block));
  section.conclusion = conclude(analysis);
}

}  // namespace duet::reports
