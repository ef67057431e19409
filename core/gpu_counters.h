// SPDX-License-Identifier: Apache-2.0
// What a GPU tells and counts besides time. core/cuda/ implements it, core/no_cuda/ stands in for it. Used by
// bench/repetition.cpp and bench/meters.cpp, and through that by duet doctor.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "core/context.h"

namespace duet {

// Beside GpuClock of core/gpu.h: the clock of its memory now, and what lowers its clocks, such as "power cap,
// temperature"; empty where nothing does. Empty where the context is no GPU's, or there is no NVML.
struct GpuLimits {
  std::optional<double> memory_mhz;
  std::string throttled_by;
};
std::optional<GpuLimits> gpu_limits(Context& context);

// Joules that the GPU's board has taken since its driver was loaded, by NVML. Empty with `reason` where it says none.
std::optional<double> gpu_energy_j(Context& context, std::string& reason);

// Bytes that a GPU's memory moves, reads and writes, between start() and stop(); all work has to be complete at both.
class GpuTraffic {
 public:
  virtual ~GpuTraffic() = default;
  virtual bool start(std::string& reason) = 0;                  // false with `reason`
  virtual std::optional<double> stop(std::string& reason) = 0;  // empty with `reason`
};
// By CUPTI. Null with `reason`.
std::unique_ptr<GpuTraffic> open_gpu_traffic(Context& context, std::string& reason);

}  // namespace duet
