// SPDX-License-Identifier: Apache-2.0
#include "reports/counters.h"

#include <utility>

namespace duet::reports {

std::string to_text(Quantity quantity) {
  switch (quantity) {
    case Quantity::instructions:
      return "instructions";
    case Quantity::cycles:
      return "cycles";
    case Quantity::bytes:
      return "memory traffic";
    case Quantity::cpu_energy_j:
      return "energy of the CPU";
    case Quantity::dram_energy_j:
      return "energy of its memory";
    case Quantity::gpu_energy_j:
      return "energy of the GPU";
  }
  return "";
}

std::optional<double> traffic_ratio(const Job& job) {
  const std::optional<double> moved = job.counters ? job.counters->value_of(Quantity::bytes) : std::nullopt;
  if (!moved || job.bytes == 0) return std::nullopt;
  return *moved / static_cast<double>(job.bytes);
}

std::optional<Energy> energy_of(const Job& job) {
  const Quantity own = job.device == Device::cpu ? Quantity::cpu_energy_j : Quantity::gpu_energy_j;
  if (!job.counters || !job.counters->value_of(own)) return std::nullopt;
  Energy energy;
  for (const auto& [quantity, name] : {std::pair{Quantity::gpu_energy_j, "GPU"},
                                       {Quantity::cpu_energy_j, "CPU"},
                                       {Quantity::dram_energy_j, "memory"}}) {
    const std::optional<double> joules = job.counters->value_of(quantity);
    if (!joules) continue;
    energy.joules += *joules;
    energy.watts += job.counters->watts_of(quantity).value_or(0);
    energy.parts += (energy.parts.empty() ? "" : " + ") + std::string(name);
  }
  return energy;
}

}  // namespace duet::reports
