// SPDX-License-Identifier: Apache-2.0
// A document as one HTML page: complete without scripts, network or further files. The one script (script.h) adds
// sorting and filters. Pages of many rows stay small: columns have the alignment of their table where they can, and
// muted text in a cell is an <i>.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/render.h"
#include "reports/script.h"
#include "reports/sha256.h"
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
    case Tone::cpu:
      return line + "<b class=\"cpu\">" + text + "</b>";
  }
  return "";
}

std::string text_html(const Text& text) {
  std::string out;
  for (const Span& span : text) out += span_html(span);
  return out;
}

std::string cell_html(const Cell& cell) {
  std::string text;
  for (const Span& span : cell.text)
    text += span.new_line && span.tone == Tone::muted ? "<i>" + html_escaped(span.text) + "</i>" : span_html(span);
  if (cell.folded.empty()) return text;
  std::string out = "<details><summary>" + text + "</summary><ul class=\"names\">";
  for (const std::string& name : cell.folded) out += "<li><code>" + html_escaped(name) + "</code></li>";
  return out + "</ul></details>";
}

// Neighbouring columns of one group share a header above theirs.
std::string group_headers(const Table& table) {
  if (std::all_of(table.columns.begin(), table.columns.end(), [](const Column& c) { return c.group.empty(); }))
    return "";
  std::string out = "<tr>";
  for (size_t i = 0; i < table.columns.size();) {
    size_t end = i + 1;
    while (end < table.columns.size() && table.columns[end].group == table.columns[i].group) ++end;
    out += table.columns[i].group.empty() ? fmt::format("<td colspan=\"{}\"></td>", end - i)
                                          : fmt::format("<th scope=\"colgroup\" colspan=\"{}\" class=\"b\">{}</th>",
                                                        end - i, html_escaped(table.columns[i].group));
    i = end;
  }
  return out + "</tr>";
}

// Where a group of columns begins.
bool begins_group(const Table& table, size_t i) {
  return i > 0 && !table.columns[i].group.empty() && table.columns[i].group != table.columns[i - 1].group;
}

std::string column_header(const Table& table, size_t i) {
  const Column& column = table.columns[i];
  std::string classes = column.number ? "n" : "";
  if (begins_group(table, i)) classes += classes.empty() ? "b" : " b";
  return fmt::format("<th scope=\"col\"{}{}>{}</th>", classes.empty() ? "" : " class=\"" + classes + "\"",
                     column.group.ends_with("call") && column.title != "time" ? " data-call" : "",
                     html_escaped(column.title));
}

std::string table_html(const Table& table) {
  // Alignment and lines between groups are those of a column, by its number (style.cpp), so that cells carry none. Most
  // columns of a wide table are numbers: then the others are named.
  const auto numbers = static_cast<size_t>(
      std::count_if(table.columns.begin(), table.columns.end(), [](const Column& c) { return c.number; }));
  const bool mostly_numbers = 2 * numbers > table.columns.size();
  std::string classes = mostly_numbers ? "nums" : "";
  const auto add_class = [&classes](const std::string& name) { classes += (classes.empty() ? "" : " ") + name; };
  if (table.sortable) add_class("sortable");
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].number != mostly_numbers) add_class(fmt::format("{}{}", mostly_numbers ? "t" : "n", i + 1));
    if (begins_group(table, i)) add_class(fmt::format("b{}", i + 1));
  }
  // The caption stands outside of what scrolls.
  std::string out = table.caption.empty() ? "" : "<p class=\"caption\">" + text_html(table.caption) + "</p>";
  out += "<div class=\"scroll\" tabindex=\"0\"><table";
  if (!classes.empty()) out += " class=\"" + classes + "\"";
  out += ">";
  out += "<thead>" + group_headers(table) + "<tr>";
  for (size_t i = 0; i < table.columns.size(); ++i) out += column_header(table, i);
  out += "</tr></thead><tbody>\n";
  auto group = table.groups.begin();
  for (size_t r = 0; r < table.rows.size(); ++r) {
    for (; group != table.groups.end() && group->first == r; ++group)
      out += fmt::format("{}<tr class=\"g\"><th scope=\"rowgroup\" colspan=\"{}\"><span>{}</span></th></tr>\n",
                         r == 0 ? "" : "</tbody><tbody>", table.columns.size(), text_html(group->title));
    out += "<tr>";
    for (const Cell& cell : table.rows[r]) {
      out += "<td>";
      out += cell_html(cell);
      out += "</td>";
    }
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

namespace {

std::string list_html(const std::vector<std::string>& items, const char* cls) {
  if (items.empty()) return "";
  std::string out = fmt::format("<ul class=\"{}\">", cls);
  for (const std::string& item : items) out += "<li>" + html_escaped(item) + "</li>";
  return out + "</ul>\n";
}

std::string header_html(const Document& document) {
  std::string out = "<header><p class=\"eyebrow\">" + html_escaped(document.title) + "</p>\n<h1>" +
                    html_escaped(document.headline.empty() ? document.title : document.headline) + "</h1>\n";
  for (size_t i = 0; i < std::min<size_t>(1, document.sentences.size()); ++i)
    out += "<p class=\"lead\">" + html_escaped(document.sentences[i]) + "</p>\n";
  if (document.sentences.size() > 1)
    out += list_html({document.sentences.begin() + 1, document.sentences.end()}, "answer");
  out += list_html(document.cautions, "cautions");
  out += list_html(document.warnings, "warnings");
  out += "<ul class=\"verdict\">";
  for (const Span& fact : document.verdict) out += "<li>" + span_html(fact) + "</li>";
  out += "</ul>\n<p class=\"run\">" + text_html(document.subtitle) + "</p>\n";
  if (!document.notes.empty())
    out += fmt::format("<details class=\"notes\"><summary>{} on this run</summary>{}</details>\n",
                       count_of(document.notes.size(), "note"), list_html(document.notes, "names"));
  return out + "</header>\n";
}

// Ids of sections: their titles; a second one of a title gets a number.
std::vector<std::string> section_ids(const Document& document) {
  std::vector<std::string> ids;
  for (const Section& section : document.sections) {
    const std::string base = slug(section.title);
    std::string id = base;
    for (int n = 2; std::find(ids.begin(), ids.end(), id) != ids.end(); ++n) id = fmt::format("{}-{}", base, n);
    ids.push_back(std::move(id));
  }
  return ids;
}

}  // namespace

std::string render_html(const Document& document) {
  const std::string style = page_style();
  std::string out = fmt::format(R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'">
<title>{}</title><style>{}</style></head><body>
)",
                                sha256_base64(style), sha256_base64(kPageScript), html_escaped(document.title), style);
  out += header_html(document);
  const std::vector<std::string> ids = section_ids(document);
  if (!ids.empty()) {
    out += "<nav aria-label=\"Contents\">";
    for (size_t i = 0; i < ids.size(); ++i)
      out += fmt::format("<a href=\"#{}\">{}</a>{}", ids[i], html_escaped(document.sections[i].title),
                         i + 1 < ids.size() ? " " : "");
    out += "</nav>\n";
  }
  out += "<main>\n";
  for (size_t i = 0; i < ids.size(); ++i) {
    const Section& section = document.sections[i];
    out += fmt::format("<section><h2 id=\"{}\">{}</h2>\n", ids[i], html_escaped(section.title));
    for (const Block& block : section.blocks) out += block_html(block);
    if (!section.conclusion.empty()) out += "<p class=\"conclusion\">" + html_escaped(section.conclusion) + "</p>\n";
    out += "</section>\n";
  }
  out += "</main>\n<script>";
  out += kPageScript;
  return out + "</script>\n</body></html>\n";
}

}  // namespace duet::reports
