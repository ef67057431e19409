// SPDX-License-Identifier: Apache-2.0
#include "reports/document.h"

#include <algorithm>
#include <cstddef>

namespace duet::reports {
namespace {

std::string text_of(const Cell& cell) {
  std::string text;
  for (const Span& span : cell.text) text += span.text;
  return text;
}

void drop_column(Table& table, size_t column) {
  const auto at = static_cast<ptrdiff_t>(column);
  table.columns.erase(table.columns.begin() + at);
  for (auto& row : table.rows) row.erase(row.begin() + at);
}

bool has_mark(const Table& table, const std::string& mark) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (text_of(cell).find(mark) != std::string::npos) return true;
  return false;
}

void explain_mark(std::vector<Block>& blocks, const std::string& mark, const std::string& note) {
  for (Block& block : blocks)
    if (auto* fold = std::get_if<Fold>(&block.content)) {
      explain_mark(fold->blocks, mark, note);
    } else if (auto* table = std::get_if<Table>(&block.content); table && has_mark(*table, mark)) {
      table->caption.push_back(plain((table->caption.empty() ? "" : " ") + mark + " " + note));
    }
}

}  // namespace

void drop_empty_columns(Table& table) {
  for (size_t i = table.columns.size(); i-- > 0;) {
    const bool empty = std::all_of(table.rows.begin(), table.rows.end(), [i](const std::vector<Cell>& row) {
      const std::string text = text_of(row[i]);
      return row[i].folded.empty() && (text.empty() || text == "–" || text == "-");
    });
    if (empty && !table.rows.empty()) drop_column(table, i);
  }
}

void state_constant_columns(Table& table, const std::vector<std::string>& titles) {
  if (table.rows.size() < 2) return;
  std::string stated;
  for (const std::string& title : titles) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                    [&title](const Column& column) { return column.title == title; });
    if (found == table.columns.end()) continue;
    const auto i = static_cast<size_t>(found - table.columns.begin());
    const std::string value = text_of(table.rows[0][i]);
    const bool constant = std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Cell>& row) {
      return row[i].folded.empty() && text_of(row[i]) == value;
    });
    if (!constant) continue;
    stated += (stated.empty() ? "" : ", ") + title + ": " + value;
    drop_column(table, i);
  }
  if (!stated.empty())
    table.caption.push_back(plain((table.caption.empty() ? "In every row " : " In every row ") + stated + "."));
}

void explain_mark(Document& document, const std::string& mark, const std::string& note) {
  for (Section& section : document.sections) explain_mark(section.blocks, mark, note);
}

}  // namespace duet::reports
