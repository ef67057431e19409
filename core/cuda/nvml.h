// SPDX-License-Identifier: Apache-2.0
// NVML, loaded at run time and called through prototypes of our own: the driver's version, clocks, temperature, power,
// the reasons for the present clock, and energy.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/gpu.h"

namespace duet::cuda {

// A value is empty where this driver or this GPU does not report it.
struct GpuState {
  std::optional<double> sm_clock_hz, memory_clock_hz, temperature_c, power_w;
  std::optional<uint64_t> clock_event_reasons;  // bits, as NVML defines them
  // What lowers the clock: "power cap, temperature". Idle and application clocks do not count. Empty: nothing does.
  std::string throttled_by() const;
};

// As NVML lays out nvmlProcessInfo_v2_t, for functions of version 3.
struct NvmlProcess {
  unsigned pid;
  unsigned long long memory_bytes;  // all ones where the driver does not tell
  unsigned gpu_instance, compute_instance;
};

// What is used of NVML; null where the library lacks it. Each function returns 0 for success. Tests fill it themselves.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_pci_bus)(const char*, void** device) = nullptr;
  int (*clock)(void* device, int which, unsigned* mhz) = nullptr;
  int (*temperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  int (*power)(void* device, unsigned* milliwatts) = nullptr;
  int (*reasons)(void* device, unsigned long long* bits) = nullptr;
  int (*driver)(char* text, unsigned size) = nullptr;
  int (*energy)(void* device, unsigned long long* millijoules) = nullptr;
  int (*processes)(void* device, unsigned* count, NvmlProcess* list) = nullptr;  // those that compute
  int (*mig)(void* device, unsigned* now, unsigned* pending) = nullptr;
};

class Nvml {
 public:
  static std::unique_ptr<Nvml> open(const std::string& pci_bus);  // null: no library, or an unknown device
  static std::unique_ptr<Nvml> open(const NvmlFunctions& functions, const std::string& pci_bus);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  GpuState state() const;
  std::string driver_version() const;  // "580.65.06"; "" when unavailable
  // Since the driver was loaded. Empty with `reason`: GPUs before Volta and MIG do not count it.
  std::optional<double> energy_j(std::string& reason) const;
  std::vector<GpuUse::Process> processes() const;  // that compute on it, this one as well; empty when unavailable
  // The same without process `own`, which has a context on the GPU. Where it is not listed, the numbers are those of
  // another PID namespace, as in most containers: how many others there are is known then, and their pid is 0.
  std::vector<GpuUse::Process> others(int64_t own) const;
  bool mig() const;  // whether the GPU is divided into instances

 private:
  explicit Nvml(const NvmlFunctions& functions) : functions_(functions) {}
  NvmlFunctions functions_;
  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace duet::cuda
