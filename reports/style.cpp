// SPDX-License-Identifier: Apache-2.0
#include "reports/style.h"

#include <fmt/format.h>

namespace duet::reports {
namespace {

struct Colour {
  const char *name, *light, *dark;
};

// p0 ...: ops of a training step. Text has a contrast of 4.5 or more with the page, bars and lines of 3 or more
// (tests/report/page.py).
constexpr Colour kPalette[] = {
    {"page", "#ffffff", "#11161c"},     {"panel", "#f6f8fa", "#1a212a"}, {"text", "#1b2430", "#e3e8ee"},
    {"muted", "#5c6773", "#9aa6b3"},    {"line", "#d5dbe2", "#323c48"},  {"cpu", "#c2570c", "#f2964f"},
    {"gpu", "#1267b3", "#6cb2f0"},      {"bad", "#b3261e", "#ff8a80"},   {"warn", "#8a6100", "#e2b44c"},
    {"good", "#1a7f37", "#6fcf8a"},     {"p0", "#1267b3", "#6cb2f0"},    {"p1", "#c2570c", "#f2964f"},
    {"p2", "#2e7d54", "#69c394"},       {"p3", "#7d4fa3", "#bd93e0"},    {"p4", "#8a6d1a", "#d6b656"},
    {"p5", "#0f7c86", "#5cc8d2"},       {"p6", "#a8406f", "#ec8fb8"},    {"p7", "#566273", "#aab6c4"},
    {"residual", "#7d8894", "#7d8996"}, {"on", "#ffffff", "#11161c"},    {"shade", "#00000026", "#00000080"}};

constexpr const char* kChartStyle = R"(svg text { fill: var(--text); }
.m { fill: var(--muted); } .on { fill: var(--on); font-weight: 600; } .h { font-size: 13px; font-weight: 600; }
.grid { stroke: var(--line); } .one { stroke: var(--text); stroke-width: 1.5; }
.whisker { stroke: var(--text); stroke-width: 1.3; } .under { stroke: var(--page); stroke-width: 3.6; }
.halo { stroke: var(--page); stroke-width: 3; paint-order: stroke; } .mark { stroke: var(--page); }
.curve { fill: none; } .dash { stroke-dasharray: 6 3; } .dots { stroke-dasharray: 2 2; }
.back, .hollow { fill: var(--page); }
.outline { fill: none; stroke: var(--residual); } .band { fill: var(--line); opacity: 0.5; }
.thin { stroke-width: 1; } .thick { stroke-width: 4; }
)";

constexpr const char* kPageStyle =
    R"(body { margin: 0 auto; padding: 20px clamp(12px, 2.5vw, 32px) 48px; max-width: 1320px;
  background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: clamp(22px, 3.2vw, 32px); line-height: 1.2; margin: 0 0 8px; text-wrap: balance; }
h2 { font-size: 20px; margin: 40px 0 6px; padding-top: 10px; border-top: 1px solid var(--line); }
p { margin: 4px 0 10px; max-width: 90ch; } a { color: var(--gpu); }
.eyebrow { color: var(--muted); margin: 0 0 6px; font-size: 13px; }
.lead { font-size: 17px; margin: 0 0 8px; }
.answer { margin: 0 0 10px; padding-left: 20px; max-width: 95ch; } .answer li { margin: 2px 0; }
.cautions, .warnings { margin: 8px 0; padding: 8px 12px 8px 30px; max-width: 95ch; border-left: 4px solid var(--warn);
  background: var(--panel); } .warnings { border-color: var(--bad); color: var(--bad); font-weight: 600; }
.verdict { display: flex; flex-wrap: wrap; gap: 8px; margin: 12px 0 6px; padding: 0; list-style: none;
  font-size: 13px; }
.verdict li { border: 1px solid var(--line); background: var(--panel); border-radius: 999px; padding: 2px 12px; }
.run { font-size: 13px; } .notes { font-size: 13px; } .names { margin: 4px 0; padding-left: 18px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 16px 0 0; padding: 8px 0; font-size: 14px;
  border-top: 1px solid var(--line); }
.conclusion { margin: 12px 0 0; padding: 6px 12px; border-left: 4px solid var(--gpu); background: var(--panel);
  font-weight: 600; }
.muted { color: var(--muted); } .bad { color: var(--bad); } .warn { color: var(--warn); } .good { color: var(--good); }
.cpu { color: var(--cpu); }
.pair { display: flex; flex-wrap: wrap; gap: 12px; } .pair figure { flex: 1 1 320px; min-width: 0; max-width: 640px; }
figure { margin: 8px 0; padding: 8px; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
svg { font-size: 11.5px; } figure > svg { display: block; }
.scroll { overflow-x: auto; margin: 6px 0 14px;
  background: linear-gradient(90deg, var(--page) 40%, transparent) left / 40px 100% no-repeat local,
    linear-gradient(270deg, var(--page) 40%, transparent) right / 40px 100% no-repeat local,
    linear-gradient(90deg, var(--shade), transparent) left / 14px 100% no-repeat scroll,
    linear-gradient(270deg, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid var(--gpu); }
/* Collapsed borders would stay behind where a column is sticky. */
table { border-collapse: separate; border-spacing: 0; font-size: 13px; line-height: 1.4; }
.caption { color: var(--muted); font-size: 13px; margin: 14px 0 4px; }
th, td { padding: 4px 9px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; font-weight: 600; }
thead tr:first-child:not(:last-child) > * { border-bottom: 0; padding-bottom: 0; }
thead th[scope="colgroup"] { border-bottom: 1px solid var(--line); }
.b { border-left: 1px solid var(--line); padding-left: 12px; }
td i { display: block; font-style: normal; color: var(--muted); font-size: 12px; }
.n, .nums td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.nums td:first-child { white-space: normal; min-width: 15em; max-width: 26em; }
.g th { padding-top: 16px; background: none; border-bottom: 2px solid var(--line); font-weight: 400; }
.g span { position: sticky; left: 9px; } .flat .g { display: none; }
tbody tr:not(.g):hover { background: var(--panel); }
code { font: 12.5px ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: 3px 0; } details > summary { color: var(--gpu); }
th button { all: unset; cursor: pointer; white-space: nowrap; }
th button:focus-visible { outline: 2px solid var(--gpu); }
th button::after { content: " \2195"; color: var(--muted); font-weight: 400; }
th[aria-sort="ascending"] button::after { content: " \2191"; color: var(--text); }
th[aria-sort="descending"] button::after { content: " \2193"; color: var(--text); }
.controls { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; margin: 10px 0 4px; font-size: 13px; }
.controls input, .controls select { font: inherit; color: inherit; background: var(--page); padding: 4px 8px;
  border: 1px solid var(--muted); border-radius: 5px; }
.controls output { color: var(--muted); } [hidden] { display: none; }
@media screen and (min-width: 601px) {
  .nums td:first-child { position: sticky; left: 0; background: var(--page); z-index: 1; } }
@media screen and (max-width: 600px) { body { font-size: 14px; } h2 { font-size: 18px; } .lead { font-size: 15px; }
  th, td { padding: 4px 6px; } .nums td:first-child { min-width: 9em; } }
@page { size: A4 landscape; margin: 11mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; } nav, .controls { display: none; }
  .scroll { overflow: visible; background: none; } figure { overflow: visible; }
  table { width: 100%; font-size: 7pt; } th, td { padding: 2px 3px; } .b { padding-left: 4px; }
  th, td { white-space: normal !important; } .nums td:first-child { min-width: 0; max-width: none; }
  td i, code { font-size: 6.5pt; } th button::after { content: none; }
  figure, tr, .conclusion { break-inside: avoid; } h2, .g { break-after: avoid; } thead { display: table-header-group; }
  section { break-inside: auto; } }
)";

std::string variables(bool dark) {
  std::string css;
  for (const Colour& c : kPalette) css += fmt::format(" --{}: {};", c.name, dark ? c.dark : c.light);
  return css;
}

// Each colour as a fill (f-cpu) and as a stroke (l-cpu).
std::string colour_classes() {
  std::string css;
  for (const Colour& c : kPalette)
    css += fmt::format(".f-{0} {{ fill: var(--{0}); }} .l-{0} {{ stroke: var(--{0}); stroke-width: 2; }}\n", c.name);
  return css;
}

// Classes of a table: t3 and n3 align its third column as text or as numbers, b3 draws a line before it.
std::string column_classes() {
  std::string css;
  for (size_t i = 1; i <= kMaxStyledColumns; ++i)
    css += fmt::format(
        ".t{0} td:nth-child({0}) {{ text-align: left; }} .n{0} td:nth-child({0}) {{ text-align: right; "
        "font-variant-numeric: tabular-nums; white-space: nowrap; }} .b{0} td:nth-child({0}) {{ border-left: 1px solid "
        "var(--line); padding-left: 12px; }}\n",
        i);
  return css;
}

std::string with_literal_colours(std::string css, bool dark) {
  for (const Colour& c : kPalette) {
    const std::string variable = fmt::format("var(--{})", c.name);
    for (size_t at = css.find(variable); at != std::string::npos; at = css.find(variable, at))
      css.replace(at, variable.size(), dark ? c.dark : c.light);
  }
  return css;
}

}  // namespace

std::string page_style() {
  return fmt::format(
      "\n:root {{ color-scheme: light dark;{} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{} }} "
      "}}\n{}{}{}{}",
      variables(false), variables(true), column_classes(), kPageStyle, colour_classes(), kChartStyle);
}

std::string chart_style() {
  const std::string css = colour_classes() + kChartStyle;
  return fmt::format(
      "\nsvg {{ font: 11.5px system-ui, \"DejaVu Sans\", sans-serif; }}\n{}@media (prefers-color-scheme: "
      "dark) {{\n{}}}\n",
      with_literal_colours(css, false), with_literal_colours(css, true));
}

}  // namespace duet::reports
