// SPDX-License-Identifier: Apache-2.0
// Joins the two kinds of case and applies the selection of the command line.
#include "bench/cases.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/name_filter.h"

namespace duet::bench {
namespace {
bool listed(const std::vector<std::string>& list, const std::string& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// Rows of a run file are found by their names. Two cases of one name are an error before the run, not after it.
void require_unique(const Cases& cases) {
  std::set<std::string> names;
  for (const auto& c : cases)
    if (!names.insert(c->name()).second) throw Error("case {} is selected twice; each is measured once", c->name());
}
}  // namespace

Cases select_cases(const Options& options) {
  Cases cases = op_cases(options);
  for (auto& step : step_cases(options)) cases.push_back(std::move(step));

  const NameFilter filter(options.filter);
  const std::optional<NameFilter> exclude =
      options.exclude.empty() ? std::nullopt : std::optional<NameFilter>(options.exclude);
  std::vector<std::string> known_implementations;
  for (auto& c : cases) {
    std::erase_if(c->sides, [&](const Side& s) {
      known_implementations.push_back(s.implementation);
      return !(s.device == Device::cpu ? options.cpu : options.gpu) ||
             !listed(options.implementations, s.implementation) || !listed(options.dtypes, c->dtype) ||
             !filter.matches(s.job) || (exclude && exclude->matches(s.job));
    });
  }
  for (const std::string& wanted : options.implementations)
    if (std::find(known_implementations.begin(), known_implementations.end(), wanted) == known_implementations.end())
      throw Error("--impl '{}' names no implementation; see `duet list`", wanted);
  std::erase_if(cases, [](const auto& c) { return c->sides.empty(); });
  if (cases.empty())
    throw Error("nothing matches: --filter '{}' with {} and the other selections; --list shows what there is",
                options.filter,
                options.cases.empty() ? fmt::format("--scale {}", name_of(options.preset)) : "the cases of --case");
  require_unique(cases);
  return cases;
}

}  // namespace duet::bench
