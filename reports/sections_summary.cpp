// SPDX-License-Identifier: Apache-2.0
// The summary for a pull request: the answer and the few tables that back it. Its size does not grow with the run.
#include <fmt/format.h>

#include <algorithm>

#include "reports/answer.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/phrases.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

constexpr size_t kMaxRows = 10;  // of each table of cases
constexpr size_t kMaxSteps = 30;
constexpr size_t kMaxFailures = 15;
constexpr size_t kMaxText = 160;  // characters of a name or a reason
constexpr size_t kMaxSentences = 20;

Cell short_cell(const std::string& text, Tone tone = Tone::plain) { return cell(elided(text, kMaxText), tone); }

Table largest_table(const std::vector<const SpeedupRow*>& rows, const char* caption) {
  Table table{
      .caption = {plain(caption)},
      .columns =
          {{"case"}, {"CPU", true}, {"GPU call", true}, {"by call", true}, {"with copies", true}, {"why this shape"}},
      .rows = {}};
  for (size_t i = 0; i < std::min(kMaxRows, rows.size()); ++i) {
    const SpeedupRow& row = *rows[i];
    const auto ratio = [&](Scope scope) {
      const auto& interval = row.ratio[static_cast<size_t>(scope)];
      return cell(interval ? outcome_text(*interval) + marks_text(row) : "–");
    };
    table.rows.push_back({short_cell(case_text(row.case_name)), cell(seconds(row.cpu.call->summary.median_s)),
                          cell(seconds(row.gpu.call->summary.median_s)), ratio(Scope::call), ratio(Scope::end_to_end),
                          short_cell(row.cpu.job->why)});
  }
  return table;
}

Table far_from_roof_table(const std::vector<const OneSidedRow*>& rows) {
  Table table{.caption = {plain("Furthest from the CPU's roof.")},
              .columns = {{"case"}, {"implementation"}, {"time", true}, {"of its roof"}, {"why this shape"}},
              .rows = {}};
  for (size_t i = 0; i < std::min(kMaxRows, rows.size()); ++i) {
    const OneSidedRow& row = *rows[i];
    table.rows.push_back({short_cell(case_text(row.case_name)), short_cell(impl_text(*row.choice.job)),
                          cell(seconds(row.choice.call->summary.median_s)), cell(roof_text(*row.choice.call)),
                          short_cell(row.choice.job->why)});
  }
  return table;
}

void add_cases(const Analysis& analysis, Document& document) {
  std::vector<const SpeedupRow*> gains, losses;
  for (const SpeedupRow& row : analysis.speedups) {
    if (!row.primary || row.kind() != Kind::op) continue;
    if (winner(row.call()) == Winner::gpu) gains.push_back(&row);
    if (winner(row.call()) == Winner::cpu) losses.push_back(&row);
  }
  std::reverse(losses.begin(), losses.end());
  if (!analysis.families.empty()) {
    Section& section = document.sections.emplace_back(Section{"Cases", {}});
    if (!gains.empty()) section.blocks.push_back({largest_table(gains, "The GPU's largest advantages.")});
    if (!losses.empty()) section.blocks.push_back({largest_table(losses, "The CPU's largest advantages.")});
    Table families = family_table(analysis.families);
    families.rows.resize(std::min(families.rows.size(), 3 * kMaxRows));
    section.blocks.push_back({std::move(families)});
    return;
  }
  std::vector<const OneSidedRow*> rows;
  for (const OneSidedRow& row : analysis.one_sided)
    if (row.device == Device::cpu && row.kind() == Kind::op && roof_share(row)) rows.push_back(&row);
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OneSidedRow* a, const OneSidedRow* b) { return *roof_share(*a) < *roof_share(*b); });
  document.sections.push_back({"Cases", {{far_from_roof_table(rows)}}});
}

void add_failures(const Run& run, const Analysis& analysis, Document& document) {
  Table table{.caption = {}, .columns = {{"status"}, {"job"}, {"reason"}, {"again"}}, .rows = {}};
  size_t left = 0;
  for (const MissingGroup& group : analysis.missing) {
    if (group.status != "failed" && group.status != "suspect") continue;
    for (const std::string& name : group.jobs) {
      if (table.rows.size() == kMaxFailures) {
        ++left;
        continue;
      }
      const auto job = std::find_if(run.jobs.begin(), run.jobs.end(),
                                    [&](const Job& j) { return named_of(j.name, j.machine) == name; });
      const std::string repro = job == run.jobs.end() ? "" : job->repro;
      table.rows.push_back({cell(group.status), short_cell(name, Tone::code), short_cell(group.reason),
                            cell(repro.size() > 4 * kMaxText ? "" : repro, Tone::code)});
    }
  }
  if (table.rows.empty()) return;
  drop_empty_columns(table);
  Section& section = document.sections.emplace_back(Section{"Failed and suspect", {}});
  section.blocks.push_back({std::move(table)});
  if (left > 0) section.blocks.push_back({Text{plain(count_of(left, "more job") + " in the full report.")}});
}

}  // namespace

void add_summary(const Run& run, const Analysis& analysis, Document& document) {
  for (auto* list : {&document.sentences, &document.cautions, &document.warnings, &document.notes}) {
    list->resize(std::min(list->size(), kMaxSentences));
    for (std::string& text : *list) text = elided(text, 4 * kMaxText);
  }
  add_cases(analysis, document);
  if (!analysis.steps.empty()) {
    Table steps = step_table(step_pairs(analysis.steps), Kind::step);
    steps.rows.resize(std::min(steps.rows.size(), kMaxSteps));
    document.sections.push_back({"Training steps", {{std::move(steps)}}, conclude_steps(analysis, Kind::step)});
  }
  if (const std::string text = conclude_break_even(analysis); !text.empty())
    document.sections.push_back({"Break-even", {}, text});
  add_failures(run, analysis, document);
}

}  // namespace duet::reports
