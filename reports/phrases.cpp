// SPDX-License-Identifier: Apache-2.0
#include "reports/phrases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/answer.h"
#include "reports/format.h"

namespace duet::reports {
namespace {

// "attention (3 of 3), recurrent (1 of 2)", at most three families.
std::string weak_families(const std::vector<const OneSidedRow*>& rows) {
  std::map<std::string, std::pair<size_t, size_t>> families;  // weak, all
  for (const OneSidedRow* row : rows) {
    auto& [weak, all] = families[row->family.empty() ? "other" : row->family];
    weak += row->weak_cpu;
    ++all;
  }
  std::vector<std::pair<std::string, std::pair<size_t, size_t>>> sorted(families.begin(), families.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.second.first > b.second.first; });
  std::string text;
  size_t named = 0, left = 0;
  for (const auto& [family, counts] : sorted) {
    if (counts.first == 0) continue;
    if (named++ < 3)
      text += fmt::format("{}{} ({} of {})", text.empty() ? "" : ", ", family, counts.first, counts.second);
    else
      ++left;
  }
  return left > 0 ? text + fmt::format(" and {} more {}", left, verb(left, "family", "families")) : text;
}

}  // namespace

Rows rows_of(const Analysis& analysis, Kind kind) {
  Rows rows;
  for (const SpeedupRow& row : analysis.speedups)
    if (row.primary && row.kind() == kind) rows.push_back(&row);
  return rows;
}

size_t count_wins(const Rows& rows, Winner side) {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const SpeedupRow* row) { return winner(row->call()) == side; }));
}

std::optional<double> median_ratio(const Rows& rows, Scope scope) {
  std::vector<double> ratios;
  for (const SpeedupRow* row : rows)
    if (const auto& ratio = row->ratio[static_cast<size_t>(scope)]) ratios.push_back(ratio->value);
  if (ratios.empty()) return std::nullopt;
  return results::median(std::move(ratios));
}

const char* verb(size_t count, const char* one, const char* several) { return count == 1 ? one : several; }

std::string out_of(size_t count, size_t all) {
  return count == all ? fmt::format("all {}", all) : fmt::format("{} of {}", count, all);
}

std::string score(const Rows& rows, const char* noun) {
  const size_t gpu = count_wins(rows, Winner::gpu), cpu = count_wins(rows, Winner::cpu), all = rows.size();
  const size_t level = all - gpu - cpu;
  if (level == all)
    return fmt::format("CPU and GPU are level in {}",
                       all == 1 ? fmt::format("the only {}", noun) : fmt::format("all {} {}s", all, noun));
  const bool gpu_first = gpu >= cpu;
  const size_t first = gpu_first ? gpu : cpu, second = gpu_first ? cpu : gpu;
  std::string text = all == 1 ? fmt::format("the {} wins the only {}", gpu_first ? "GPU" : "CPU", noun)
                              : fmt::format("the {} wins {} {}s", gpu_first ? "GPU" : "CPU", out_of(first, all), noun);
  if (second > 0) text += fmt::format(", the {} {}", gpu_first ? "CPU" : "GPU", second);
  if (level > 0) text += fmt::format("{} {} {} level", second > 0 ? ", and" : ",", level, verb(level, "is", "are"));
  return text;
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text.ends_with('.') ? text : text + ".";
}

std::string faster_side(double ratio) {
  return ratio >= 1 ? fmt::format("the GPU is {} faster", times(ratio))
                    : fmt::format("the CPU is {} faster", times(1 / ratio));
}

std::string winner_text(const SpeedupRow& row) {
  return winner(row.call()) == Winner::level ? "both are level" : faster_side(row.call_ratio());
}

std::vector<const OneSidedRow*> one_sided(const Analysis& analysis, Device device, Kind kind) {
  std::vector<const OneSidedRow*> rows;
  for (const OneSidedRow& row : analysis.one_sided)
    if (row.device == device && row.kind() == kind) rows.push_back(&row);
  return rows;
}

size_t count_cases(const std::vector<const OneSidedRow*>& rows) {
  std::set<std::string> names;
  for (const OneSidedRow* row : rows) names.insert(row->case_name);
  return names.size();
}

std::optional<double> roof_share(const OneSidedRow& row) {
  const Series& call = *row.choice.call;
  if (!call.roof || call.has_flag(results::flag::kFloor) || results::has_disturbed_roof(call)) return std::nullopt;
  return call.roof->fraction;
}

std::string results_text(const std::vector<const OneSidedRow*>& rows) {
  const size_t cases = count_cases(rows);
  if (cases == rows.size()) return count_of(cases, "case");
  return fmt::format("{} of {}", count_of(rows.size(), "result"), count_of(cases, "case"));
}

std::string median_of(const std::vector<const OneSidedRow*>& with_roof, const std::vector<const OneSidedRow*>& all) {
  const size_t left = all.size() - with_roof.size();
  if (left == 0 && all.size() == 1) return "the only case";
  if (left == 0) return "the median of " + results_text(all);
  return fmt::format("{} of {}; {} no roof to compare with",
                     with_roof.size() == 1 ? "1" : fmt::format("the median of {}", with_roof.size()), results_text(all),
                     left == 1 ? "the other has" : "the others have");
}

const char* noun_of(const std::vector<const OneSidedRow*>& rows) {
  return count_cases(rows) == rows.size() ? "case" : "result";
}

std::string near_sentence(const std::vector<double>& shares, const char* noun) {
  const auto near =
      static_cast<size_t>(std::count_if(shares.begin(), shares.end(), [](double share) { return share >= kNearRoof; }));
  return fmt::format("{} {} {:.0f} % or more of it.", count_of(near, noun), verb(near, "reaches", "reach"),
                     100 * kNearRoof);
}

std::string weak_cpu_sentence(const std::vector<const OneSidedRow*>& rows) {
  const auto weak = static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const OneSidedRow* row) { return row->weak_cpu; }));
  if (weak == 0) return "";
  return fmt::format("{} {} below {:.0f} %: {}.", count_of(weak, noun_of(rows)), verb(weak, "stays", "stay"),
                     100 * results::kWeakFraction, weak_families(rows));
}

std::string beaten_sentence(const Analysis& analysis) {
  const std::vector<results::Beaten>& all = analysis.beaten;
  if (all.empty()) return "";
  constexpr size_t kNamed = 3;
  std::string names;
  for (size_t i = 0; i < std::min(kNamed, all.size()); ++i)
    names += fmt::format("{}{} ({}, {})", i == 0 ? "" : ", ", case_text(all[i].own->case_name), all[i].library->impl,
                         times(all[i].factor));
  return fmt::format("A library is more than {:.0f} % faster than our own CPU code in {}{} {}.",
                     100 * (results::kBeatenFactor - 1), count_of(all.size(), "result"),
                     all.size() > kNamed ? ", most of all in" : ":", names);
}

}  // namespace duet::reports
