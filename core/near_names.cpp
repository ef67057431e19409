// SPDX-License-Identifier: Apache-2.0
#include "core/near_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace duet {
namespace {

// Insertions, deletions, substitutions (Levenshtein, 1966), one row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kMaxNames = 3;
  const size_t max_edits = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& k : known) {
    const bool begins = !name.empty() && k.starts_with(name);
    // There are as many edits at least: a name of many kilobytes is compared with none.
    const size_t longer = std::max(name.size(), k.size()) - std::min(name.size(), k.size());
    if (longer > max_edits && !begins) continue;
    const size_t edits = edit_distance(name, k);
    if (edits <= max_edits || begins) near.emplace_back(edits, k);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMaxNames, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

std::string near_hint(std::string_view name, const std::vector<std::string>& known) {
  const std::vector<std::string> near = near_names(name, known);
  return near.empty() ? fmt::format("; known are {}", fmt::join(known, " "))
                      : fmt::format("; did you mean {}?", fmt::join(near, ", "));
}

}  // namespace duet
