// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/nvml.h"

#include <dlfcn.h>

namespace duet::cuda {
namespace {
// Constants of NVML's documentation. Its functions return 0 for success.
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
constexpr uint64_t kPowerCap = 0x4, kHardware = 0x8, kThermalSoftware = 0x20, kThermalHardware = 0x40,
                   kPowerBrake = 0x80;
}  // namespace

bool GpuState::throttled() const {
  constexpr uint64_t kCounts = kPowerCap | kHardware | kThermalSoftware | kThermalHardware | kPowerBrake;
  return clock_event_reasons && (*clock_event_reasons & kCounts) != 0;
}

struct Nvml::Api {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_pci_bus)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  bool initialised = false;

  template <class F>
  void find(F*& function, const char* name, const char* older = nullptr) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function && older) function = reinterpret_cast<F*>(dlsym(library, older));
  }
  ~Api() {
    if (initialised && shutdown) shutdown();
    if (library) dlclose(library);
  }
};

std::unique_ptr<Nvml> Nvml::open(const std::string& pci_bus) {
  auto api = std::make_unique<Api>();
  api->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!api->library) return nullptr;
  api->find(api->init, "nvmlInit_v2");
  api->find(api->shutdown, "nvmlShutdown");
  api->find(api->by_pci_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  api->find(api->clock, "nvmlDeviceGetClockInfo");
  api->find(api->temperature, "nvmlDeviceGetTemperature");
  api->find(api->power, "nvmlDeviceGetPowerUsage");
  api->find(api->reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
  api->find(api->driver, "nvmlSystemGetDriverVersion");
  if (!api->init || !api->by_pci_bus || api->init() != 0) return nullptr;
  api->initialised = true;
  void* device = nullptr;
  if (api->by_pci_bus(pci_bus.c_str(), &device) != 0) return nullptr;
  return std::unique_ptr<Nvml>(new Nvml(std::move(api), device));
}

Nvml::Nvml(std::unique_ptr<Api> api, void* device) : api_(std::move(api)), device_(device) {}
Nvml::~Nvml() = default;

GpuState Nvml::state() const {
  GpuState s;
  unsigned value = 0;
  unsigned long long bits = 0;
  if (api_->clock && api_->clock(device_, kClockSm, &value) == 0) s.sm_clock_hz = value * 1e6;
  if (api_->clock && api_->clock(device_, kClockMemory, &value) == 0) s.memory_clock_hz = value * 1e6;
  if (api_->temperature && api_->temperature(device_, kTemperatureGpu, &value) == 0) s.temperature_c = value;
  if (api_->power && api_->power(device_, &value) == 0) s.power_w = value * 1e-3;
  if (api_->reasons && api_->reasons(device_, &bits) == 0) s.clock_event_reasons = bits;
  return s;
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  return api_->driver && api_->driver(text, sizeof text) == 0 ? text : "";
}

}  // namespace duet::cuda
