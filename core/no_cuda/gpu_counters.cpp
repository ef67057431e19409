// SPDX-License-Identifier: Apache-2.0
#include "core/gpu_counters.h"

namespace duet {

std::optional<GpuLimits> gpu_limits(Context&) { return std::nullopt; }

std::optional<double> gpu_energy_j(Context& context, std::string& reason) {
  reason = context.describe() + " is no GPU";
  return std::nullopt;
}

std::unique_ptr<GpuTraffic> open_gpu_traffic(Context& context, std::string& reason) {
  reason = context.describe() + " is no GPU";
  return nullptr;
}

}  // namespace duet
