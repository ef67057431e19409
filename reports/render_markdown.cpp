// SPDX-License-Identifier: Apache-2.0
// A document as Markdown in GitHub's dialect.
#include <fmt/format.h>

#include "reports/format.h"
#include "reports/render.h"

namespace duet::reports {
namespace {

// Text from a run file must stay text: no markup, no table cell of its own, no HTML.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      safe += ' ';
    else if (std::string_view("\\`*_[]|~#$").find(c) != std::string_view::npos)
      safe += std::string("\\") + c;
    else
      safe += c;
  }
  return safe;
}

std::string code_text(const std::string& text) {
  for (const char c : text)
    if (c == '`' || c == '|' || c == '\\' || static_cast<unsigned char>(c) < 0x20) return escaped(text);
  return text.empty() ? "" : "`" + text + "`";
}

std::string span_text(const Span& span) {
  const std::string line = span.new_line ? "<br>" : "";
  if (span.tone == Tone::code) return line + code_text(span.text);
  // Markdown wants leading spaces outside the asterisks.
  const size_t begin = span.text.find_first_not_of(' ');
  if ((span.tone == Tone::strong || span.tone == Tone::bad || span.tone == Tone::cpu) && begin != std::string::npos)
    return line + span.text.substr(0, begin) + "**" + escaped(span.text.substr(begin)) + "**";
  return line + escaped(span.text);
}

std::string text_of(const Text& text) {
  std::string out;
  for (const Span& span : text) out += span_text(span);
  return out;
}

std::string cell_text(const Cell& cell) {
  if (cell.folded.empty()) return text_of(cell.text);
  std::string names;
  for (const std::string& name : cell.folded) names += (names.empty() ? "" : "<br>") + code_text(name);
  return "<details><summary>" + text_of(cell.text) + "</summary>" + names + "</details>";
}

std::string table_text(const Table& table) {
  std::string out = table.caption.empty() ? "" : text_of(table.caption) + "\n\n";
  std::string rule = "|";
  out += "|";
  for (const Column& column : table.columns) {
    out += " " + escaped(column.group.empty() ? column.title : column.group + ": " + column.title) + " |";
    rule += column.number ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  auto group = table.groups.begin();
  for (size_t r = 0; r < table.rows.size(); ++r) {
    for (; group != table.groups.end() && group->first == r; ++group) {
      out += "| " + text_of(group->title) + " |";
      for (size_t i = 1; i < table.columns.size(); ++i) out += " |";
      out += "\n";
    }
    out += "|";
    for (const Cell& cell : table.rows[r]) out += " " + cell_text(cell) + " |";
    out += "\n";
  }
  return out + "\n";
}

std::string block_text(const Block& block) {
  if (const auto* text = std::get_if<Text>(&block.content)) return text_of(*text) + "\n\n";
  if (const auto* table = std::get_if<Table>(&block.content)) return table_text(*table);
  std::string out;
  if (const auto* figures = std::get_if<Figures>(&block.content)) {
    for (const Chart& chart : figures->charts)
      out += fmt::format("![{}]({}.svg)\n", escaped(chart.title + ". " + chart.description), chart.stem);
    return out + "\n";
  }
  const Fold& fold = std::get<Fold>(block.content);
  for (const Block& inner : fold.blocks) out += block_text(inner);
  return fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", escaped(fold.summary), out);
}

void collect(const std::vector<Block>& blocks, std::vector<Chart>& charts) {
  for (const Block& block : blocks) {
    if (const auto* figures = std::get_if<Figures>(&block.content))
      charts.insert(charts.end(), figures->charts.begin(), figures->charts.end());
    if (const auto* fold = std::get_if<Fold>(&block.content)) collect(fold->blocks, charts);
  }
}

}  // namespace

std::string render_markdown(const Document& document) {
  std::string out = "# " + escaped(document.headline.empty() ? document.title : document.headline) + "\n\n";
  std::string sentences;
  for (const std::string& sentence : document.sentences) sentences += (sentences.empty() ? "" : " ") + sentence;
  if (!sentences.empty()) out += escaped(sentences) + "\n\n";
  for (const std::string& caution : document.cautions) out += "- **Care:** " + escaped(caution) + "\n";
  for (const std::string& warning : document.warnings) out += "- **Warning:** " + escaped(warning) + "\n";
  if (!document.cautions.empty() || !document.warnings.empty()) out += "\n";
  std::string facts;
  for (const Span& fact : document.verdict) facts += (facts.empty() ? "" : " · ") + span_text(fact);
  out += facts + "\n\n" + text_of(document.subtitle) + "\n\n";
  if (!document.notes.empty()) {
    out += fmt::format("<details><summary>{} on this run</summary>\n\n", count_of(document.notes.size(), "note"));
    for (const std::string& note : document.notes) out += "- " + escaped(note) + "\n";
    out += "\n</details>\n\n";
  }
  for (const Section& section : document.sections) {
    out += "## " + escaped(section.title) + "\n\n";
    for (const Block& block : section.blocks) out += block_text(block);
    if (!section.conclusion.empty()) out += "**" + escaped(section.conclusion) + "**\n\n";
  }
  return out;
}

std::vector<Chart> charts_of(const Document& document) {
  std::vector<Chart> charts;
  for (const Section& section : document.sections) collect(section.blocks, charts);
  return charts;
}

}  // namespace duet::reports
