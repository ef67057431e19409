// SPDX-License-Identifier: Apache-2.0
#include "bench/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/machine.h"

namespace duet::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPart_s = 0.2;  // applications between two looks at the clock
constexpr double kMaxRuns = 1e6;

results::Reading reading_of(const Gauge& gauge, int64_t applications, double time_s) {
  results::Reading reading{
      .quantity = gauge.quantity, .value = {}, .source = {}, .unavailable_reason = gauge.unavailable_reason};
  if (!gauge.meter) return reading;
  const std::optional<double> total = gauge.meter->stop(reading.unavailable_reason);
  if (total && *total > 0) {
    reading.value = *total / static_cast<double>(applications);
    reading.source = gauge.source;
  } else if (total) {  // as counters of some virtual machines, which are there and count nothing
    reading.unavailable_reason = fmt::format("the counter stood still for {:.1f} s ({})", time_s, gauge.source);
  }
  return reading;
}

}  // namespace

bool any_can_measure(const Gauges& gauges) {
  return std::any_of(gauges.begin(), gauges.end(), [](const Gauge& g) { return g.meter != nullptr; });
}

void take_window(const Gauges& gauges, const Counted& counted, double window_s, results::Counters& counters) {
  results::CounterWindow window{.applications = 0};
  const int runs = static_cast<int>(std::clamp(kPart_s / counted.application_s, 1.0, kMaxRuns));
  const CpuSnapshot before = CpuSnapshot::now();
  for (const Gauge& gauge : gauges)
    if (gauge.meter) gauge.meter->start();
  const auto start = Clock::now();
  do {
    counted.apply(runs);
    window.applications += runs;
    window.time_s = std::chrono::duration<double>(Clock::now() - start).count();
    for (const Gauge& gauge : gauges)
      if (gauge.meter) gauge.meter->poll();
    counted.between();
  } while (window.time_s < window_s);
  window.foreign_cores = std::max(0.0, cpu_use(before, CpuSnapshot::now()).foreign_cores);
  // Those that started last stop first: what it takes to stop the first ones is in no other reading.
  std::vector<results::Reading> readings;
  for (auto gauge = gauges.rbegin(); gauge != gauges.rend(); ++gauge)
    readings.push_back(reading_of(*gauge, window.applications, window.time_s));
  counters.readings.insert(counters.readings.end(), readings.rbegin(), readings.rend());
  counters.window = window;
}

void take_nothing(const Gauges& gauges, const std::string& reason, results::Counters& counters) {
  for (const Gauge& gauge : gauges)
    counters.readings.push_back({.quantity = gauge.quantity,
                                 .value = {},
                                 .source = {},
                                 .unavailable_reason = gauge.meter ? reason : gauge.unavailable_reason});
}

}  // namespace duet::bench
