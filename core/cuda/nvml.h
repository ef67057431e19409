// SPDX-License-Identifier: Apache-2.0
// NVML, loaded at run time with our own prototypes: clocks, temperature, power, and why the clock is what it is.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace duet::cuda {

// Each value only where this driver and this GPU give it.
struct GpuState {
  std::optional<double> sm_clock_hz, memory_clock_hz, temperature_c, power_w;
  std::optional<uint64_t> clock_event_reasons;  // NVML's bits
  bool throttled() const;  // power cap, thermal, hardware or power brake; idle and application clocks do not count
};

class Nvml {
 public:
  static std::unique_ptr<Nvml> open(const std::string& pci_bus);  // null: no library, or it does not know the device
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
