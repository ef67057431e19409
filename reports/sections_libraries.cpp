// SPDX-License-Identifier: Apache-2.0
// The section on our own CPU code beside the libraries.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/join.h"
#include "reports/sections.h"

namespace duet::reports {
namespace {

// "In the geometric mean a library is faster than our own code in conv by cpu.onednn (0.85×)."
std::string conclude(const std::vector<LibraryRow>& rows) {
  std::string behind;
  for (const LibraryRow& row : rows)
    if (row.geometric_mean < 1)
      behind += fmt::format("{}{} by {}{} ({})", behind.empty() ? "" : ", ", row.family, row.library,
                            row.machine.empty() ? "" : " on " + row.machine, times(row.geometric_mean));
  if (behind.empty()) return "In the geometric mean no library is faster than our own code in any family.";
  return "In the geometric mean a library is faster than our own code in " + behind + ".";
}

}  // namespace

void add_libraries(const Analysis& analysis, Document& document) {
  if (analysis.libraries.empty()) return;
  Section& section = document.sections.emplace_back(Section{"Our CPU code beside libraries", {}});
  section.blocks.push_back(
      {Text{plain("The library's call over the fastest of our own implementations, of each case that has both: above 1 "
                  "our own is faster.")}});
  Table table{.caption = {plain("Geometric means over the cases of a family, by family and library.")},
              .columns = {{"family"},
                          {"library"},
                          {"machine"},
                          {"cases", true},
                          {"library ÷ ours", true},
                          {"library faster in", true},
                          {"most of all"},
                          {"library ÷ ours", true, "most of all"}},
              .rows = {}};
  for (const LibraryRow& row : analysis.libraries) {
    const auto faster = static_cast<size_t>(
        std::count_if(row.cases.begin(), row.cases.end(), [](const LibraryRow::Case& c) { return c.ratio < 1; }));
    const LibraryRow::Case& least = row.cases.front();
    const auto ratio = [](double value) { return Cell{{{times(value), value < 1 ? Tone::warn : Tone::plain}}, {}}; };
    table.rows.push_back({cell(row.family), cell(row.library), cell(row.machine.empty() ? "–" : row.machine),
                          cell(std::to_string(row.cases.size())), ratio(row.geometric_mean),
                          cell(std::to_string(faster)), cell(faster ? case_text(least.case_name) : "–"),
                          faster ? ratio(least.ratio) : cell("–")});
  }
  drop_empty_columns(table);
  section.blocks.push_back({std::move(table)});
  section.conclusion = conclude(analysis.libraries);
}

}  // namespace duet::reports
