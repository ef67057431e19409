// SPDX-License-Identifier: Apache-2.0
#include "bench/record.h"

#include <algorithm>

#include "reports/statistics.h"

namespace duet::bench {

Summary summarise(const std::vector<Repetition>& repetitions) {
  constexpr size_t kEnough = 3;  // clean repetitions; with fewer, all count
  std::vector<double> medians, clean;
  Summary s;
  for (const Repetition& r : repetitions) {
    medians.push_back(reports::median(r.samples_s));
    if (std::find(r.flags.begin(), r.flags.end(), "contended") == r.flags.end()) clean.push_back(medians.back());
  }
  if (clean.size() >= kEnough) medians = clean;
  s.median_s = reports::median(medians);
  std::sort(medians.begin(), medians.end());
  // Order statistics: with n values, the smallest and the largest bound the median with 1 - 2^(1-n), 97 % for n = 6.
  s.lo_s = medians.front();
  s.hi_s = medians.back();
  s.interval = medians.size() == 1   ? "one repetition: none"
               : medians.size() >= 6 ? "order statistics of repetition medians"
                                     : "min-max of repetition medians";
  s.min_s = s.median_s;
  for (const Repetition& r : repetitions)
    for (const double t : r.samples_s) s.min_s = std::min(s.min_s, t);
  return s;
}

}  // namespace duet::bench
