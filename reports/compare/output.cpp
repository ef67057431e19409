// SPDX-License-Identifier: Apache-2.0
// A comparison as a sentence, a document (Markdown), JSON and a table for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/compare/compare.h"
#include "reports/format.h"
#include "reports/render.h"

namespace duet::reports {
namespace {

using results::Interval;
using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;             // of the JSON
constexpr size_t kMaxShown = 60;       // rows of a table for a terminal, and of one in Markdown
constexpr size_t kMaxFolded = 300;     // of a folded table
constexpr size_t kMaxNameWidth = 100;  // characters of a row's name on a terminal

std::string value_text(const Comparison& c, double value) {
  if (value == 0) return "-";
  if (c.metric == Metric::speedup) return times(1 / value);  // stored inverted
  if (c.unit == "s") return seconds(value);
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;  // counts
  return whole ? fmt::format("{:.0f}", value) : significant(value, 6);
}

// Of a speedup the ratio is shown as it is read: below 1 is worse.
double shown_ratio(const Comparison& c, double ratio) { return c.metric == Metric::speedup ? 1 / ratio : ratio; }

std::string ratio_text(double ratio) {
  return ratio < 1e-2 || ratio >= 1e4 ? significant(ratio) : fmt::format("{:.3f}", ratio);
}

std::string interval_text(const Comparison& c, const Interval& i) {
  const double x = shown_ratio(c, i.lo), y = shown_ratio(c, i.hi);
  return fmt::format("{} to {} ({})", ratio_text(std::min(x, y)), ratio_text(std::max(x, y)), i.label);
}

std::string reason_text(const ComparedRow& row) {
  std::string text = text_of_code(row.code);
  if (!row.detail.empty()) text += ": " + row.detail;
  return text;
}

Tone tone_of(Verdict v) {
  switch (v) {
    case Verdict::slower:
    case Verdict::error:
      return Tone::bad;
    case Verdict::missing:
    case Verdict::ambiguous:
      return Tone::warn;
    case Verdict::faster:
      return Tone::good;
    default:
      return Tone::plain;
  }
}

// No escape sequences from a file to a terminal.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

const char* noun_of(const Comparison& c) {
  return c.metric == Metric::speedup ? "speedup" : c.unit == "s" ? "time" : "count";
}

Table row_table(const Comparison& c, const std::vector<const ComparedRow*>& rows, bool terminal) {
  Table table{
      .caption = {},
      .columns = {{"verdict"}, {"row"}, {"base", true}, {"head", true}, {"ratio", true}, {"interval"}, {"reason"}},
      .rows = {}};
  for (const ComparedRow* r : rows) {
    std::string name = terminal ? elided(r->name, kMaxNameWidth) : r->name;
    Cell row_name = cell(std::move(name));
    if (!r->note.empty()) row_name.text.push_back(muted(" (" + r->note + ")"));
    const bool has = r->has_ratio();
    table.rows.push_back({cell(name_of(r->verdict), tone_of(r->verdict)), std::move(row_name),
                          cell(value_text(c, r->base)), cell(value_text(c, r->head)),
                          cell(has ? ratio_text(shown_ratio(c, r->ratio.value)) : "-"),
                          cell(has ? interval_text(c, r->ratio) : "-"), cell(reason_text(*r))});
  }
  return table;
}

Table family_table(const Comparison& c) {
  Table table{.caption = {},
              .columns = {{"family"}, {"device"}, {"scope"}, {"rows", true}, {"geometric mean of ratios", true}},
              .rows = {}};
  const bool totals = c.metric == Metric::time;
  if (totals) {
    table.columns.push_back({"total of base", true});
    table.columns.push_back({"total of head", true});
  }
  for (const FamilySum& f : c.families) {
    table.rows.push_back({cell(f.family.empty() ? "-" : f.family), cell(f.device.empty() ? "-" : f.device),
                          cell(f.scope.empty() ? "-" : f.scope), cell(fmt::format("{}", f.rows)),
                          cell(ratio_text(shown_ratio(c, f.geometric_mean)))});
    if (totals) {
      table.rows.back().push_back(cell(value_text(c, f.base)));
      table.rows.back().push_back(cell(value_text(c, f.head)));
    }
  }
  return table;
}

std::vector<const ComparedRow*> rows_with(const Comparison& c, bool same) {
  std::vector<const ComparedRow*> found;
  for (const ComparedRow& r : c.rows)
    if ((r.verdict == Verdict::same) == same) found.push_back(&r);
  return found;
}

std::string side_text(const RunFacts& r) {
  std::string text = r.file;
  if (!r.commit.empty()) text += ", commit " + r.commit;
  if (!r.started_at.empty()) text += ", " + r.started_at;
  if (r.kind != "Duet")
    text += ", " + r.kind;
  else
    text += fmt::format(", {} process{}", r.processes, r.processes == 1 ? "" : "es");
  return text;
}

std::vector<std::string> notes_of(const Comparison& c) {
  std::vector<std::string> notes = c.warnings;
  if (!c.allowed.empty()) notes.push_back("Compared although " + sentence_of(c.allowed));
  if (c.without_result > 0)
    notes.push_back(count_of(c.without_result, "job") +
                    " without a result on either side, such as those of a missing GPU");
  return notes;
}

Json interval_json(const Interval& i) {
  return {{"value", i.value}, {"lo", i.lo}, {"hi", i.hi}, {"interval", i.label}};
}

Json facts_json(const RunFacts& r) {
  return {{"file", r.file},
          {"kind", r.kind},
          {"commit", r.commit},
          {"started_at", r.started_at},
          {"processes", r.processes}};
}

Json number_or_null(double value) { return value == 0 ? Json() : Json(value); }
Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json row_json(const ComparedRow& r) {
  return {{"name", r.name},
          {"job", r.job},
          {"family", r.family},
          {"device", r.device},
          {"scope", r.scope},
          {"verdict", name_of(r.verdict)},
          {"code", r.code},
          {"reason", reason_text(r)},
          {"base", number_or_null(r.base)},
          {"head", number_or_null(r.head)},
          {"base_values", r.base_values},
          {"head_values", r.head_values},
          {"ratio", r.has_ratio() ? interval_json(r.ratio) : Json()},
          {"floor", r.floor},
          {"p", number_or_null(r.p)},
          {"q", number_or_null(r.q)},
          {"note", r.note}};
}

// Rows about which the gate ran out of time, however large their shift: they are neither SLOWER nor the same.
std::string undecided_text(const Comparison& c) {
  constexpr size_t kNamed = 5;
  std::string text;
  size_t count = 0;
  for (const ComparedRow& r : c.rows)
    if (is_undecided(r) && ++count <= kNamed)
      text += fmt::format("{}{}{}", count == 1 ? "" : ", ", elided(r.name, kMaxNameWidth),
                          r.has_ratio() ? fmt::format(" ({}×)", significant(shown_ratio(c, r.ratio.value))) : "");
  if (count == 0) return "";
  if (count > kNamed) text += fmt::format(" and {} more", count - kNamed);
  return fmt::format(" Undecided: {}.", text);
}

}  // namespace

bool is_undecided(const ComparedRow& row) {
  return row.verdict == Verdict::ambiguous && (row.code == "budget" || row.code == "filter_too_long");
}

std::string answer(const Comparison& c) {
  if (!c.failure.empty()) return fmt::format("No verdict: {}.", c.failure);
  const size_t compared = c.compared();
  std::string text;
  if (compared == 0) {
    text = "Nothing could be compared: no row has a result on both sides";
  } else {
    const size_t slower = c.count(Verdict::slower), faster = c.count(Verdict::faster);
    const char* worse = c.metric == Metric::speedup ? "lower" : c.unit == "s" ? "slower" : "higher";
    const char* better = c.metric == Metric::speedup ? "higher" : c.unit == "s" ? "faster" : "lower";
    const auto largest = [&](Verdict v) -> std::string {
      for (const ComparedRow& r : c.rows)
        if (r.verdict == v && r.has_ratio())
          return fmt::format(" (most: {}, {}×)", elided(r.name, kMaxNameWidth),
                             significant(shown_ratio(c, r.ratio.value)));
      return "";
    };
    text = fmt::format("Of {}, {} {} {}{}, {} {}{}, {} the same, {} ambiguous", count_of(compared, noun_of(c)), slower,
                       slower == 1 ? "is" : "are", worse, largest(Verdict::slower), faster, better,
                       largest(Verdict::faster), c.count(Verdict::same), c.count(Verdict::ambiguous));
  }
  const auto add = [&](Verdict v, const char* what) {
    if (const size_t n = c.count(v); n > 0) text += fmt::format("; {} {}", n, what);
  };
  add(Verdict::error, "failed in head");
  add(Verdict::missing, "missing in head");
  add(Verdict::added, "new in head");
  return text + "." + undecided_text(c);
}

Document comparison_document(const Comparison& c) {
  Document d;
  d.title = c.title;
  d.subtitle = {plain("base: " + side_text(c.base)), below(plain("head: " + side_text(c.head)))};
  d.verdict = {strong(answer(c))};
  d.warnings = notes_of(c);
  if (!c.failure.empty()) return d;
  std::vector<const ComparedRow*> changed = rows_with(c, false), same = rows_with(c, true);
  const auto cut = [](std::vector<const ComparedRow*>& rows, size_t limit) {
    const size_t left = rows.size() - std::min(rows.size(), limit);
    rows.resize(rows.size() - left);
    return left == 0 ? Text{} : Text{muted(fmt::format("{} more are in the JSON", left))};
  };
  Section rows{.title = "Rows that are not the same", .blocks = {}};
  const Text more_changed = cut(changed, kMaxShown), more_same = cut(same, kMaxFolded);
  if (changed.empty())
    rows.blocks.push_back({Text{plain("None.")}});
  else
    rows.blocks.push_back({row_table(c, changed, false)});
  if (!more_changed.empty()) rows.blocks.push_back({more_changed});
  if (!same.empty()) {
    Fold fold{count_of(c.count(Verdict::same), "row") + " that did not change", {}};
    fold.blocks.push_back({row_table(c, same, false)});
    if (!more_same.empty()) fold.blocks.push_back({more_same});
    rows.blocks.push_back({std::move(fold)});
  }
  d.sections.push_back(std::move(rows));
  if (!c.families.empty()) d.sections.push_back({"Families", {{family_table(c)}}});
  Section method{.title = "How verdicts are reached", .blocks = {}};
  for (const std::string& sentence : c.method) method.blocks.push_back({Text{plain(sentence)}});
  d.sections.push_back(std::move(method));
  return d;
}

std::string comparison_json(const Comparison& c) {
  Json counts;
  for (const Verdict v : {Verdict::slower, Verdict::error, Verdict::missing, Verdict::ambiguous, Verdict::faster,
                          Verdict::added, Verdict::same})
    counts[name_of(v)] = c.count(v);
  Json allowed = Json::array(), rows = Json::array(), families = Json::array();
  for (const Difference& d : c.allowed) allowed.push_back({{"key", d.key}, {"base", d.base}, {"head", d.head}});
  for (const ComparedRow& r : c.rows) rows.push_back(row_json(r));
  for (const FamilySum& f : c.families)
    families.push_back({{"family", f.family},
                        {"device", f.device},
                        {"scope", f.scope},
                        {"rows", f.rows},
                        {"geometric_mean", f.geometric_mean},
                        {"base", f.base},
                        {"head", f.head}});
  const Json document{{"duet_comparison", kSchema},
                      {"title", c.title},
                      {"metric", noun_of(c)},
                      {"values", c.metric == Metric::speedup ? "GPU time / CPU time: larger is worse"
                                 : c.unit == "s"             ? "seconds"
                                                             : "counts"},
                      {"answer", answer(c)},
                      {"failure", c.failure.empty() ? Json() : Json(c.failure)},
                      {"base", facts_json(c.base)},
                      {"head", facts_json(c.head)},
                      {"differences", std::move(allowed)},
                      {"warnings", c.warnings},
                      {"method", c.method},
                      {"counts", std::move(counts)},
                      {"rows", std::move(rows)},
                      {"families", std::move(families)}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparison_text(const Comparison& c, bool all) {
  std::vector<const ComparedRow*> rows = rows_with(c, false);
  const size_t changed = rows.size();
  if (!all && rows.size() > kMaxShown) rows.resize(kMaxShown);
  if (all)
    for (const ComparedRow* r : rows_with(c, true)) rows.push_back(r);
  std::string text;
  if (!rows.empty()) text += render_text(row_table(c, rows, true));
  if (!all && changed > kMaxShown) text += fmt::format("and {} more (--all)\n", changed - kMaxShown);
  if (!c.families.empty()) text += (text.empty() ? "" : "\n") + render_text(family_table(c)) + "\n";
  for (const std::string& note : notes_of(c)) text += one_line(note) + "\n";
  for (const std::string& sentence : c.method) text += sentence + "\n";
  return text + one_line(answer(c)) + "\n";
}

}  // namespace duet::reports
