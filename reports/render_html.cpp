// SPDX-License-Identifier: Apache-2.0
// A document as one HTML page: complete without scripts, network or further files.
#include <fmt/format.h>

#include "reports/format.h"
#include "reports/render.h"
#include "reports/style.h"

namespace duet::reports {
namespace {

std::string span_html(const Span& span) {
  const std::string text = html_escaped(span.text), line = span.new_line ? "<br>" : "";
  switch (span.tone) {
    case Tone::plain:
      return line + text;
    case Tone::strong:
      return line + "<b>" + text + "</b>";
    case Tone::code:
      return line + "<code>" + text + "</code>";
    case Tone::muted:
      return line + "<span class=\"muted\">" + text + "</span>";
    case Tone::good:
      return line + "<span class=\"good\">" + text + "</span>";
    case Tone::warn:
      return line + "<span class=\"warn\">" + text + "</span>";
    case Tone::bad:
      return line + "<span class=\"bad\">" + text + "</span>";
  }
  return "";
}

std::string text_html(const Text& text) {
  std::string out;
  for (const Span& span : text) out += span_html(span);
  return out;
}

std::string cell_html(const Cell& cell) {
  if (cell.folded.empty()) return text_html(cell.text);
  std::string out = "<details><summary>" + text_html(cell.text) + "</summary><ul class=\"names\">";
  for (const std::string& name : cell.folded) out += "<li><code>" + html_escaped(name) + "</code></li>";
  return out + "</ul></details>";
}

std::string table_html(const Table& table) {
  std::string out = "<div class=\"scroll\"><table>";
  if (!table.caption.empty()) out += "<caption>" + text_html(table.caption) + "</caption>";
  out += "<thead><tr>";
  for (const Column& column : table.columns)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", column.number ? " class=\"n\"" : "", html_escaped(column.title));
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += (table.columns[i].number ? "<td class=\"n\">" : "<td>") + cell_html(row[i]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string figures_html(const Figures& figures) {
  std::string out;
  for (const Chart& chart : figures.charts) out += "<figure>" + svg_inline(chart) + "</figure>";
  constexpr int kNarrow = 600;  // pixels: such charts stand side by side
  const bool narrow = !figures.charts.empty() && figures.charts.front().width < kNarrow;
  return narrow ? "<div class=\"pair\">" + out + "</div>\n" : out + "\n";
}

std::string block_html(const Block& block) {
  if (const auto* text = std::get_if<Text>(&block.content)) return "<p>" + text_html(*text) + "</p>\n";
  if (const auto* table = std::get_if<Table>(&block.content)) return table_html(*table);
  if (const auto* figures = std::get_if<Figures>(&block.content)) return figures_html(*figures);
  const Fold& fold = std::get<Fold>(block.content);
  std::string out = "<details><summary>" + html_escaped(fold.summary) + "</summary>\n";
  for (const Block& inner : fold.blocks) out += block_html(inner);
  return out + "</details>\n";
}

std::string title_and_description(const Chart& chart) {
  return "<title>" + html_escaped(chart.title) + "</title><desc>" + html_escaped(chart.description) + "</desc>";
}

}  // namespace

std::string svg_inline(const Chart& chart) {
  return fmt::format(R"(<svg role="img" width="100%" height="{}">)", chart.height) + title_and_description(chart) +
         chart.marks + "</svg>";
}

std::string svg_file(const Chart& chart) {
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{}" height="{}">)", chart.width,
                     chart.height) +
         title_and_description(chart) + "<style>" + html_escaped(chart_style()) + "</style>" +
         R"(<rect x="0" y="0" width="100%" height="100%" class="back"/>)" + chart.marks + "</svg>\n";
}

std::string render_html(const Document& document) {
  // Scripts, images and requests stay blocked by default-src.
  std::string out = fmt::format(R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{}</title><style>{}</style></head><body>
<h1>{}</h1><p>{}</p>
<ul class="verdict">)",
                                html_escaped(document.title), page_style(), html_escaped(document.title),
                                text_html(document.subtitle));
  for (const Span& fact : document.verdict) out += "<li>" + span_html(fact) + "</li>";
  out += "</ul>\n";
  if (!document.warnings.empty()) {
    out += "<ul class=\"warnings\">";
    for (const std::string& warning : document.warnings) out += "<li class=\"warn\">" + html_escaped(warning) + "</li>";
    out += "</ul>\n";
  }
  for (const Section& section : document.sections) {
    out += "<h2>" + html_escaped(section.title) + "</h2>\n";
    for (const Block& block : section.blocks) out += block_html(block);
  }
  return out + "</body></html>\n";
}

}  // namespace duet::reports
