// SPDX-License-Identifier: Apache-2.0
// Measured traffic and energy (bench_all --counters) as reports and duet explain show them. sections_counters.cpp makes
// the section.
#pragma once
#include <optional>
#include <string>

#include "reports/analysis.h"

namespace duet::reports {

using results::Quantity;

inline constexpr double kTrafficMargin = 0.1;  // of the compulsory traffic: within it, as the model says

std::string to_text(Quantity quantity);  // "memory traffic", "energy of the CPU"

// Bytes that one application moved / its compulsory traffic. Empty where one of them is not known.
std::optional<double> traffic_ratio(const Job& job);

// Of one application, everything that was measured of the machine that ran it: of a job on the CPU its packages and
// memory, of one on the GPU its board and those of the host.
struct Energy {
  double joules = 0, watts = 0;
  std::string parts;  // "GPU + CPU + memory"
};
// Empty where the energy of the device itself was not measured.
std::optional<Energy> energy_of(const Job& job);

}  // namespace duet::reports
