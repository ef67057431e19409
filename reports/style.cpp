// SPDX-License-Identifier: Apache-2.0
#include "reports/style.h"

#include <fmt/format.h>

namespace duet::reports {
namespace {

struct Colour {
  const char *name, *light, *dark;
};

// s0, s1, s2: kernel, call, end to end. p0 ...: ops of a training step.
constexpr Colour kPalette[] = {
    {"page", "#ffffff", "#11161c"},     {"panel", "#f6f8fa", "#1a212a"}, {"text", "#1b2430", "#e3e8ee"},
    {"muted", "#5c6773", "#9aa6b3"},    {"line", "#d5dbe2", "#323c48"},  {"cpu", "#c2570c", "#f2964f"},
    {"gpu", "#1267b3", "#6cb2f0"},      {"s0", "#0b4f8a", "#a9d4fb"},    {"s1", "#3f8fd2", "#4f9fe3"},
    {"s2", "#9cc6ea", "#2c669c"},       {"bad", "#b3261e", "#ff8a80"},   {"warn", "#8a6100", "#e2b44c"},
    {"good", "#1a7f37", "#6fcf8a"},     {"p0", "#1267b3", "#6cb2f0"},    {"p1", "#c2570c", "#f2964f"},
    {"p2", "#2e7d54", "#69c394"},       {"p3", "#7d4fa3", "#bd93e0"},    {"p4", "#8a6d1a", "#d6b656"},
    {"p5", "#0f7c86", "#5cc8d2"},       {"p6", "#a8406f", "#ec8fb8"},    {"p7", "#566273", "#aab6c4"},
    {"residual", "#9aa4af", "#6d7884"}, {"on", "#ffffff", "#11161c"}};

constexpr const char* kChartStyle = R"(svg text { fill: var(--text); }
.m { fill: var(--muted); } .on { fill: var(--on); font-weight: 600; } .h { font-size: 13px; font-weight: 600; }
.grid { stroke: var(--line); } .one { stroke: var(--text); stroke-width: 1.5; }
.whisker { stroke: var(--text); stroke-width: 1.3; } .under { stroke: var(--page); stroke-width: 3.6; }
.halo { stroke: var(--page); stroke-width: 3; paint-order: stroke; } .mark { stroke: var(--page); }
.curve { fill: none; } .dash { stroke-dasharray: 6 3; } .dots { stroke-dasharray: 2 2; } .back, .hollow { fill: var(--page); }
.outline { fill: none; stroke: var(--residual); } .band { fill: var(--line); opacity: 0.5; }
.thin { stroke-width: 1; } .thick { stroke-width: 4; }
)";

constexpr const char* kPageStyle =
    R"(body { margin: 0 auto; padding: 20px 24px 40px; max-width: 1180px;
  background: var(--page); color: var(--text);
  font: 14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 30px 0 4px; }
p { margin: 4px 0 8px; max-width: 95ch; }
.muted { color: var(--muted); } .bad { color: var(--bad); } .warn { color: var(--warn); } .good { color: var(--good); }
.verdict { display: flex; flex-wrap: wrap; gap: 8px; margin: 10px 0; padding: 0; list-style: none; }
.verdict li { border: 1px solid var(--line); background: var(--panel); border-radius: 6px; padding: 4px 10px; }
.warnings { margin: 4px 0; padding-left: 20px; } .names { margin: 4px 0; padding-left: 18px; }
.pair { display: flex; flex-wrap: wrap; gap: 12px; }
.pair figure { flex: 1 1 320px; min-width: 0; max-width: 560px; }
figure { margin: 6px 0; padding: 6px; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
svg { font-size: 11.5px; } figure > svg { display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; margin: 6px 0; }
caption { text-align: left; color: var(--muted); padding: 2px 0; }
th, td { padding: 3px 10px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { background: var(--panel); border-bottom: 2px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:hover { background: var(--panel); } 
code { font: 12.5px ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: break-word; }
summary { cursor: pointer; } body > details { margin-top: 8px; } @media print { figure, tr { break-inside: avoid; } }
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
      "\n:root {{ color-scheme: light dark;{} }}\n@media (prefers-color-scheme: dark) {{ :root {{{} }} }}\n{}{}{}",
      variables(false), variables(true), kPageStyle, colour_classes(), kChartStyle);
}

std::string chart_style() {
  const std::string css = colour_classes() + kChartStyle;
  return fmt::format(
      "\nsvg {{ font: 11.5px system-ui, \"DejaVu Sans\", sans-serif; }}\n{}@media (prefers-color-scheme: "
      "dark) {{\n{}}}\n",
      with_literal_colours(css, false), with_literal_colours(css, true));
}

}  // namespace duet::reports
