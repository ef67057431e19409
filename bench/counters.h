// SPDX-License-Identifier: Apache-2.0
// bench_all --counters: a window of applications of a job, beside its timing and never in it, with the gauges of its
// device (meters.h). Called by case_timer.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/meters.h"
#include "results/run.h"

namespace duet::bench {

// How to apply a job again and again.
struct Counted {
  std::function<void(int runs)> apply;  // so many applications, and a wait for the last
  std::function<void()> between;        // while applying; may throw
  double application_s;                 // about how long one takes
};

bool any_can_measure(const Gauges& gauges);
// Readings of one application: the values of the window / its applications. window_s: seconds that it lasts at least.
void take_window(const Gauges& gauges, const Counted& counted, double window_s, results::Counters& counters);
// Readings without a window and without values. reason: of the gauges that could measure another job.
void take_nothing(const Gauges& gauges, const std::string& reason, results::Counters& counters);

}  // namespace duet::bench
