// SPDX-License-Identifier: Apache-2.0
// NVML, loaded at run time and called through prototypes of our own: the driver's version, clocks, temperature, power,
// and the reasons for the present clock.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace duet::cuda {

// A value is empty where this driver or this GPU does not report it.
struct GpuState {
  std::optional<double> sm_clock_hz, memory_clock_hz, temperature_c, power_w;
  std::optional<uint64_t> clock_event_reasons;  // bits, as NVML defines them
  // By power cap, temperature, hardware or power brake; idle and application clocks do not count.
  bool throttled() const;
};

class Nvml {
 public:
  static std::unique_ptr<Nvml> open(const std::string& pci_bus);  // null: no library, or an unknown device
  ~Nvml();
  GpuState state() const;
  std::string driver_version() const;  // "580.65.06"; "" when unavailable

 private:
  struct Api;
  Nvml(std::unique_ptr<Api> api, void* device);
  std::unique_ptr<Api> api_;
  void* device_;
};

}  // namespace duet::cuda
