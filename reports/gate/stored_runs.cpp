// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/stored_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/join.h"

namespace duet::reports {

StoredRuns load_stored(const GateOptions& options) {
  StoredRuns stored;
  for (const std::string& file : options.base.files) stored.base.push_back(load_measured(file, options.metric));
  for (const std::string& file : options.head.files) stored.head.push_back(load_measured(file, options.metric));
  std::vector<RunSource> sources;
  for (const auto* side : {&stored.base, &stored.head})
    for (const MeasuredRun& run : *side) sources.push_back({run.file, run.id});
  require_each_once(sources);
  return stored;
}

void require_alike(const GateOptions& options, const std::vector<Difference>& all, const std::string& base,
                   const std::string& head) {
  if (const auto left = not_allowed(all, options.allowed); !left.empty())
    throw NotComparable("{} and {} are not comparable: {}. --allow KEY (such as {}) compares them all the same", base,
                        head, sentence_of(left), left.front().key);
}

void choose_base(const GateOptions& options, const MeasuredRun& head, StoredRuns& stored) {
  if (options.base.past_runs) {
    stored.base = options.base.past_runs(head);
    const auto is_head = [&](const MeasuredRun& past) {  // it may be in the history already
      const auto same = [&](const MeasuredRun& run) { return !past.id.empty() && past.id == run.id; };
      return same(head) || std::any_of(stored.head.begin(), stored.head.end(), same);
    };
    stored.base.erase(std::remove_if(stored.base.begin(), stored.base.end(), is_head), stored.base.end());
    if (stored.base.empty()) throw NotComparable("there is no past run of this machine to compare with");
    return;
  }
  std::vector<MeasuredRun> alike;
  std::string reason;
  for (MeasuredRun& run : stored.base) {
    const std::vector<Difference> apart = differences(run, head);
    try {
      require_alike(options, apart, run.file, head.file);
      alike.push_back(std::move(run));
    } catch (const NotComparable& e) {
      if (reason.empty()) reason = e.what();
      stored.warnings.push_back(fmt::format("{} is left out: {}", run.file, sentence_of(apart)));
    }
  }
  if (alike.empty()) throw NotComparable("{}", reason);
  stored.base = std::move(alike);
}

// The smallest p-value is that of one order among all.
std::string too_few(const StoredRuns& stored, double q) {
  const size_t base = stored.base.size(), head = stored.head.size();
  double orders = 1;
  for (size_t i = 1; i <= head; ++i) orders *= static_cast<double>(base + i) / static_cast<double>(i);
  if (1 / orders <= q) return "";
  return fmt::format("{} of base and {} of head: too few for any row to be SLOWER", count_of(base, "run"), head);
}

}  // namespace duet::reports
