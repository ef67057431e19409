// SPDX-License-Identifier: Apache-2.0
// The section on single calls on one sample: how far the slow ones are from the usual one.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

double tail(const LatencyRow& row) { return row.percentiles.p90_s / row.percentiles.p50_s; }

}  // namespace

void add_latencies(const Analysis& analysis, Document& document) {
  if (analysis.latencies.empty() && analysis.batched_latencies == 0) return;
  Section& section = document.sections.emplace_back(Section{"Single calls", {}});
  if (analysis.batched_latencies > 0)
    section.blocks.push_back({Text{plain(fmt::format(
        "Only calls that were timed one by one have percentiles. {} on one sample {} left out, whose samples are means "
        "of several calls, which hide the slow ones.",
        count_of(analysis.batched_latencies, "more row"), analysis.batched_latencies == 1 ? "is" : "are"))}});
  if (analysis.latencies.empty()) {
    section.conclusion = "No call on one sample was timed by itself.";
    return;
  }
  const bool has_p99 = std::any_of(analysis.latencies.begin(), analysis.latencies.end(),
                                   [](const LatencyRow& row) { return row.percentiles.p99_s.has_value(); });
  Table table{
      .caption = {plain(fmt::format(
          "Calls on one sample that were timed one by one: the time that 50, 90 and 99 of 100 calls do not exceed "
          "(nearest rank, without disturbed repetitions). p99 from {} samples on{}.",
          kMinP99Samples, has_p99 ? "" : ", which no row has"))},
      .columns = {{"case"},
                  {"implementation"},
                  {"samples", true},
                  {"p50", true, "time of a call"},
                  {"p90", true, "time of a call"}},
      .rows = {}};
  if (has_p99) table.columns.push_back({"p99", true, "time of a call"});
  for (const LatencyRow& row : analysis.latencies) {
    const Percentiles& p = row.percentiles;
    table.rows.push_back({cell(case_text(row.case_name)), cell(impl_text(*row.job)), cell(fmt::format("{}", p.samples)),
                          cell(seconds(p.p50_s)), cell(seconds(p.p90_s))});
    if (has_p99) table.rows.back().push_back(cell(p.p99_s ? seconds(*p.p99_s) : "–"));
  }
  constexpr size_t kMaxVisible = 20;
  Block block{std::move(table)};
  if (analysis.latencies.size() > kMaxVisible)
    section.blocks.push_back({Fold{count_of(analysis.latencies.size(), "row"), {std::move(block)}}});
  else
    section.blocks.push_back(std::move(block));
  const LatencyRow& widest = *std::max_element(analysis.latencies.begin(), analysis.latencies.end(),
                                               [](const auto& a, const auto& b) { return tail(a) < tail(b); });
  section.conclusion =
      fmt::format("Nine calls in ten take at most {} the median time; the widest spread is that of {} by {}.",
                  times(tail(widest)), case_text(widest.case_name), impl_text(*widest.job));
}

}  // namespace duet::reports
