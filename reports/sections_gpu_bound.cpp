// SPDX-License-Identifier: Apache-2.0
// Shows bounds of GPUs that were not measured (gpu_bound.h): a section with a hatched chart, a console text, a page.
// All of it says that these are bounds.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/gpu_bound.h"
#include "reports/render.h"
#include "reports/sections.h"
#include "reports/svg.h"

namespace duet::reports {
namespace {

constexpr const char* kReportGpus[] = {"l4", "h100-sxm"};  // a small and a large one, in many clouds
constexpr size_t kReportRows = 60;
constexpr const char *kResident = "data on the GPU", *kWithCopies = "with copies";  // groups of columns
constexpr const char* kTitle = "What could a GPU buy? Upper bounds, not measurements";

using BoundMember = std::optional<GpuTimeBound> GpuBoundRow::*;

std::string formula_text(const GpuTable& table) {
  return fmt::format(
      "Bound of a call: max(flops / peak, bytes / bandwidth) + {} launch, by data sheets (dense peaks). With copies: "
      "each tensor, or of a training step its inputs and its loss, also crosses PCIe once, not while the kernel runs. "
      "A "
      "real GPU is slower, except that ‡ warm data may stay in its L2, the kernels of a step may be fused, and copies "
      "may overlap. 'cannot' allows for all of these.",
      seconds(table.launch_s));
}

std::string figures_text(const GpuFigures& gpu) {
  std::string text =
      fmt::format("{}, {}, PCIe {} x{} at {}", bytes_text(gpu.memory_bytes.value), si(gpu.bandwidth.value, "B/s"),
                  gpu.pcie_generation, gpu.pcie_lanes, si(gpu.pcie.value, "B/s", 3));
  for (const auto& [dtype, peak] : gpu.peaks)
    text += fmt::format(", {} {}", dtype, si(peak.value, dtype == "i8" ? "OP/s" : "FLOP/s"));
  return text;
}

bool any_measured(const GpuBound& bound) {
  return std::any_of(bound.rows.begin(), bound.rows.end(),
                     [](const GpuBoundRow& row) { return row.resident && row.resident->measured_s; });
}

std::string at_most(double ratio) {
  return ratio >= 1 ? "≤ " + times(ratio) : fmt::format("CPU ≥ {}", times(1 / ratio));
}

void add_bound_cells(std::vector<Cell>& cells, const std::optional<GpuTimeBound>& bound, bool measured) {
  const auto none = [] { return cell("–", Tone::muted); };
  if (!bound) {
    for (int i = 0; i < (measured ? 4 : 3); ++i) cells.push_back(none());
    return;
  }
  cells.push_back(cell(seconds(bound->time_s)));
  cells.push_back(cell(at_most(bound->ratio) + (bound->undercut ? " ‡" : "")));
  cells.push_back(cell(to_text(bound->outlook), bound->outlook == Outlook::might ? Tone::good : Tone::plain));
  if (!measured) return;
  if (!bound->measured_s) {
    cells.push_back(none());
    return;
  }
  const bool over = *bound->reached > 1;
  cells.push_back(
      cell(fmt::format("{}{}", share(*bound->reached), over ? " (undercut)" : ""), over ? Tone::warn : Tone::plain));
}

Table cases_table(const GpuBound& bound, size_t max_rows) {
  const bool measured = any_measured(bound);
  Table table;
  table.caption = {
      plain("CPU measured; GPU by bounds. might: the bound is shorter; cannot: certain; doubtful: the bound is longer, "
            "but see ‡. * the CPU is far below its own roof.")};
  table.sortable = true;
  table.columns = {{"case"}, {"CPU", true}, {"limit"}};
  for (const char* group : {kResident, kWithCopies}) {
    for (const Column& column :
         {Column{"bound", true, group}, Column{"speedup", true, group}, Column{"GPU", false, group}})
      table.columns.push_back(column);
    if (measured) table.columns.push_back({"reached", true, group});
  }
  for (const GpuBoundRow& row : bound.rows) {
    if (!row.resident || table.rows.size() == max_rows) continue;
    std::vector<Cell> cells = {cell(case_text(row.case_name) + (row.weak_cpu ? " *" : "")),
                               cell(seconds(row.cpu.call->summary.median_s)), cell(row.limit)};
    add_bound_cells(cells, row.resident, measured);
    add_bound_cells(cells, row.with_copies, measured);
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table reasons_table(const GpuBound& bound) {
  std::map<std::string, std::vector<std::string>> cases;
  for (const GpuBoundRow& row : bound.rows)
    if (!row.no_bound_reason.empty()) cases[row.no_bound_reason].push_back(case_text(row.case_name));
  Table table{.caption = {plain("Without a bound")}, .columns = {{"reason"}, {"cases"}}, .rows = {}};
  for (auto& [reason, names] : cases) {
    Cell listed = cell(count_of(names.size(), "case"));
    listed.folded = std::move(names);
    table.rows.push_back({cell(reason), std::move(listed)});
  }
  return table;
}

Table break_even_table(const GpuBound& bound) {
  Table table{.caption = {plain("The size from which the GPU might be ahead, by the sizes measured on the CPU")},
              .columns = {{"op"}, {"fixed"}, {"data on the GPU"}, {"with copies"}},
              .rows = {}};
  for (const GpuBreakEvenRow& row : bound.break_evens)
    table.rows.push_back(
        {cell(row.sweep->op), cell(fixed_text(*row.sweep)), cell(to_text(row.resident, row.sweep->size_name)),
         cell(row.with_copies.kind == GpuBreakEven::Kind::unknown ? "–"
                                                                  : to_text(row.with_copies, row.sweep->size_name))});
  return table;
}

// --- the chart: for each family the median of its bounds, with the spread

struct FamilySpread {
  double low = 0, median = 0, high = 0;
  size_t cases = 0;
};

std::map<std::string, FamilySpread> spreads(const GpuBound& bound, BoundMember member) {
  std::map<std::string, std::vector<double>> ratios;
  for (const GpuBoundRow& row : bound.rows)
    if (row.*member)  // within what an axis can show
      ratios[row.family.empty() ? "other" : row.family].push_back(std::clamp((row.*member)->ratio, 1e-9, 1e9));
  std::map<std::string, FamilySpread> found;
  for (auto& [family, values] : ratios) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    found[family] = {.low = *low, .median = 0, .high = *high, .cases = values.size()};
    found[family].median = results::median(std::move(values));
  }
  return found;
}

void spread_bar(Svg& svg, const LogAxis& x, const FamilySpread& spread, double y, const std::string& pattern,
                const std::string& tip) {
  const auto [from, to] = std::minmax({x(1.0), x(spread.median)});
  svg.hatched(from, y, to - from, 9, pattern, "thin l-residual", tip);
  svg.line({x(spread.low), y + 4.5}, {x(spread.high), y + 4.5}, "whisker dots");
}

Chart bound_chart(const GpuBound& bound) {
  constexpr int kWidth = 900;  // pixels of a file of its own
  constexpr double kLeft = 1, kRight = 99, kRow = 46;
  const auto resident = spreads(bound, &GpuBoundRow::resident), copies = spreads(bound, &GpuBoundRow::with_copies);
  double low = 1, high = 1;
  for (const auto* group : {&resident, &copies})
    for (const auto& [family, spread] : *group) {
      low = std::min(low, spread.low);
      high = std::max(high, spread.high);
    }
  const std::string stem = "gpu_bound_" + bound.gpu->name;
  Svg svg;
  svg.pattern("bound-" + stem, "l-residual");
  const double top =
      legend(svg, 2, 14,
             {{LegendEntry::hatch, "thin l-residual", "upper bound, not measured", Shape::circle, "bound-" + stem},
              {LegendEntry::dotted, "whisker", "spread of the cases"}}) +
      14;
  const double bottom = top + kRow * static_cast<double>(resident.size());
  const LogAxis x = LogAxis::round(low, high, kLeft, kRight);
  for (const double value : x.decades(6)) {
    svg.line({x(value), top}, {x(value), bottom}, "grid");
    const Anchor anchor = x(value) < 5 ? Anchor::start : x(value) > 95 ? Anchor::end : Anchor::middle;
    svg.text({x(value), bottom + 15}, fmt::format("{:g}×", value < 1 ? 1 / value : value), anchor, "m");
  }
  svg.line({x(1.0), top - 4}, {x(1.0), bottom}, "one");
  svg.text({x(1.0), bottom + 31}, "← CPU faster", Anchor::end, "m halo", -6);
  svg.text({x(1.0), bottom + 31}, "GPU might be →", x(1.0) > 60 ? Anchor::end : Anchor::start, "m halo",
           x(1.0) > 60 ? -6 : 6);
  double y = top;
  for (const auto& [family, spread] : resident) {
    svg.text({kLeft, y + 12}, elided(family, 14), Anchor::start, "h halo");
    std::string text = at_most(spread.median);
    const std::string tip = fmt::format("{}, {}: bound of the median case", family, count_of(spread.cases, "case"));
    spread_bar(svg, x, spread, y + 18, "bound-" + stem, tip + ", data on the GPU: " + text);
    if (const auto found = copies.find(family); found != copies.end()) {
      const std::string with_copies = at_most(found->second.median);
      spread_bar(svg, x, found->second, y + 30, "bound-" + stem, tip + ", with copies: " + with_copies);
      text += "; copies: " + with_copies;
    }
    svg.text({kRight, y + 12}, text, Anchor::end, "halo");
    y += kRow;
  }
  return std::move(svg).chart(stem, "Upper bound of the speedup by " + bound.gpu->title,
                              "Not a measurement: by the data sheet's bandwidth and peaks, against the CPU's measured "
                              "times. Of each family the median case, above with its data on the GPU, below with "
                              "copies; bars start at 1 on a logarithmic axis.",
                              kWidth, static_cast<int>(bottom) + 40);
}

std::vector<Block> blocks_of(const GpuBound& bound, const GpuBoundShown& shown) {
  std::vector<Block> blocks;
  blocks.push_back({Text{strong(bound.gpu->title), plain(": " + gpu_bound_sentence(bound))}});
  blocks.push_back({Text{muted(figures_text(*bound.gpu))}});
  if (std::any_of(bound.rows.begin(), bound.rows.end(), [](const GpuBoundRow& row) { return row.resident; }))
    blocks.push_back({Figures{{bound_chart(bound)}}});
  if (!bound.break_evens.empty()) blocks.push_back({break_even_table(bound)});
  Table cases = cases_table(bound, shown.max_rows);
  const size_t bounded = static_cast<size_t>(
      std::count_if(bound.rows.begin(), bound.rows.end(), [](const GpuBoundRow& row) { return row.resident; }));
  const std::string summary = cases.rows.size() == bounded
                                  ? fmt::format("{}: every case", bound.gpu->title)
                                  : fmt::format("{}: the {} largest bounds of {} cases (duet project prints all)",
                                                bound.gpu->title, cases.rows.size(), bounded);
  if (shown.fold_cases)
    blocks.push_back({Fold{summary, {{std::move(cases)}}}});
  else
    blocks.push_back({std::move(cases)});
  if (Table reasons = reasons_table(bound); !reasons.rows.empty()) blocks.push_back({std::move(reasons)});
  return blocks;
}

std::string sources_text(const std::vector<GpuBound>& bounds, const GpuTable& table) {
  std::vector<std::string> sources;
  const auto add = [&](std::string source) {
    // A page holds no address (a browser must load nothing); the JSON has them.
    for (size_t at = source.find(" https://"); at != std::string::npos; at = source.find(" https://", at))
      source.erase(at, source.find_first_of(" ;", at + 1) - at);
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
  };
  add(fmt::format("launch ({}): {}", table.launch_definition, table.launch_source));
  for (const GpuBound& bound : bounds) {
    for (const SourcedFigure* figure :
         {&bound.gpu->memory_bytes, &bound.gpu->bandwidth, &bound.gpu->l2_bytes, &bound.gpu->pcie})
      add(figure->source);
    for (const auto& [dtype, peak] : bound.gpu->peaks) add(peak.source);
  }
  std::string text = "Sources: ";
  for (size_t i = 0; i < sources.size(); ++i) text += (i ? " · " : "") + sources[i];
  return text;
}

}  // namespace

std::string gpu_bound_sentence(const GpuBound& bound) {
  const auto part = [&](BoundMember member, const char* where) {
    size_t all = 0;
    for (const GpuBoundRow& row : bound.rows) all += (row.*member).has_value();
    if (all == 0) return std::string();
    std::string text =
        fmt::format("{} it might help in {} of {}", where, bound.count(Outlook::might, member), count_of(all, "case"));
    if (const auto median = bound.median_ratio(member))
      text += fmt::format(", there by at most {} in the median", times(*median));
    const size_t cannot = bound.count(Outlook::cannot, member), doubtful = bound.count(Outlook::doubtful, member);
    text += fmt::format("; in {} it certainly cannot", cannot);
    if (doubtful > 0) text += fmt::format(", in {} it is doubtful", doubtful);
    return text + ". ";
  };
  std::string text =
      part(&GpuBoundRow::resident, "with its data on the GPU") + part(&GpuBoundRow::with_copies, "With copies");
  if (text.empty()) return "no case has a bound.";
  std::vector<double> reached;
  for (const GpuBoundRow& row : bound.rows)
    if (row.resident && row.resident->reached) reached.push_back(*row.resident->reached);
  if (!reached.empty()) {
    const size_t count = reached.size();
    text += fmt::format("A run on {} reached {} of the bound in the median of {}. ", bound.measured_device,
                        share(results::median(std::move(reached))), count_of(count, "case"));
  }
  text.pop_back();
  return text;
}

Section gpu_bound_section(const std::vector<GpuBound>& bounds, const GpuTable& table, const GpuBoundShown& shown) {
  Section section{.title = kTitle, .blocks = {}};
  section.blocks.push_back({Text{plain(formula_text(table))}});
  for (const GpuBound& bound : bounds)
    for (Block& block : blocks_of(bound, shown)) section.blocks.push_back(std::move(block));
  section.blocks.push_back({Text{muted(sources_text(bounds, table))}});
  const GpuBound& last = bounds.back();
  section.conclusion =
      fmt::format("By its data sheet, {} might be ahead in {} of {} while data stay on it, and in {} with copies.",
                  last.gpu->title, last.count(Outlook::might, &GpuBoundRow::resident),
                  count_of(last.rows.size(), "case"), last.count(Outlook::might, &GpuBoundRow::with_copies));
  return section;
}

std::string gpu_bound_console(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table) {
  std::string text = fmt::format("Upper bounds of the speedup, not measurements. CPU: {}, measured {}.\n{}\n",
                                 run.machine.cpu.name, run.invocation.started_at, formula_text(table));
  for (const GpuBound& bound : bounds) {
    text += fmt::format("\n{} ({}): {}\n{}\n\n", bound.gpu->title, bound.gpu->name, gpu_bound_sentence(bound),
                        figures_text(*bound.gpu));
    Table cases = cases_table(bound, GpuBoundShown{}.max_rows);
    for (Column& column : cases.columns)
      if (column.group == kWithCopies) column.title = "copies: " + column.title;
    text += render_text(cases);
    if (!bound.break_evens.empty()) text += "\n" + render_text(break_even_table(bound));
    for (const std::vector<Cell>& row : reasons_table(bound).rows)
      text += fmt::format("\nno bound for {}: {}\n", row[1].text[0].text, row[0].text[0].text);
  }
  return text;
}

Document gpu_bound_document(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table) {
  Document document;
  document.title = "Duet: what could a GPU buy?";
  document.subtitle = {muted(fmt::format("CPU times of {}, run {}", run.invocation.started_at, run.invocation.id))};
  document.verdict = {plain(run.machine.cpu.name),
                      plain(count_of(static_cast<size_t>(run.invocation.threads), "thread")),
                      {"upper bounds, not measurements", Tone::warn}};
  document.warnings = run.invocation.warnings;
  document.sections.push_back(gpu_bound_section(bounds, table, {}));
  return document;
}

void add_gpu_bound(const Run& run, const Analysis& analysis, Document& document) {
  if (analysis.gpu_measured) return;
  const GpuTable table = built_in_gpus();
  std::vector<GpuBound> bounds;
  for (const char* name : kReportGpus) bounds.push_back(gpu_bound(run, table.find(name), table.launch_s));
  if (bounds.front().rows.empty()) return;
  document.sections.push_back(gpu_bound_section(bounds, table, {.max_rows = kReportRows, .fold_cases = true}));
}

}  // namespace duet::reports
