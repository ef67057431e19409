// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace duet::cuda {
namespace {
// Constants of NVML's documentation. Its functions return 0 for success.
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
constexpr int kNotSupported = 3, kNoPermission = 4, kTooSmall = 7;
struct Reason {
  uint64_t bit;
  const char* name;
};
constexpr Reason kReasons[] = {{0x4, "power cap"},
                               {0x8, "hardware slowdown"},
                               {0x20, "temperature"},
                               {0x40, "temperature, by hardware"},
                               {0x80, "power brake"}};
}  // namespace

std::string GpuState::throttled_by() const {
  std::string names;
  for (const Reason& reason : kReasons)
    if (clock_event_reasons.value_or(0) & reason.bit) names += (names.empty() ? "" : ", ") + std::string(reason.name);
  return names;
}

std::unique_ptr<Nvml> Nvml::open(const std::string& pci_bus) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  const auto find = [&]<class F>(F*& function, const char* name, const char* older = nullptr) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function && older) function = reinterpret_cast<F*>(dlsym(library, older));
  };
  NvmlFunctions f;
  find(f.init, "nvmlInit_v2");
  find(f.shutdown, "nvmlShutdown");
  find(f.by_pci_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  find(f.clock, "nvmlDeviceGetClockInfo");
  find(f.temperature, "nvmlDeviceGetTemperature");
  find(f.power, "nvmlDeviceGetPowerUsage");
  find(f.reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(f.driver, "nvmlSystemGetDriverVersion");
  find(f.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find(f.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find(f.mig, "nvmlDeviceGetMigMode");
  auto nvml = open(f, pci_bus);
  if (nvml)
    nvml->library_ = library;
  else
    dlclose(library);
  return nvml;
}

std::unique_ptr<Nvml> Nvml::open(const NvmlFunctions& functions, const std::string& pci_bus) {
  if (!functions.init || !functions.by_pci_bus || functions.init() != 0) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(functions));  // shuts NVML down when it goes
  return functions.by_pci_bus(pci_bus.c_str(), &nvml->device_) == 0 ? std::move(nvml) : nullptr;
}

Nvml::~Nvml() {
  if (functions_.shutdown) functions_.shutdown();
  if (library_) dlclose(library_);
}

GpuState Nvml::state() const {
  GpuState s;
  unsigned value = 0;
  unsigned long long bits = 0;
  if (functions_.clock && functions_.clock(device_, kClockSm, &value) == 0) s.sm_clock_hz = value * 1e6;
  if (functions_.clock && functions_.clock(device_, kClockMemory, &value) == 0) s.memory_clock_hz = value * 1e6;
  if (functions_.temperature && functions_.temperature(device_, kTemperatureGpu, &value) == 0) s.temperature_c = value;
  if (functions_.power && functions_.power(device_, &value) == 0) s.power_w = value * 1e-3;
  if (functions_.reasons && functions_.reasons(device_, &bits) == 0) s.clock_event_reasons = bits;
  return s;
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  return functions_.driver && functions_.driver(text, sizeof text) == 0 ? text : "";
}

std::optional<double> Nvml::energy_j(std::string& reason) const {
  constexpr const char* kFunction = "nvmlDeviceGetTotalEnergyConsumption";
  unsigned long long millijoules = 0;
  if (!functions_.energy) {
    reason = fmt::format("the driver's NVML has no {}", kFunction);
    return std::nullopt;
  }
  const int status = functions_.energy(device_, &millijoules);
  if (status == 0) return static_cast<double>(millijoules) / 1e3;
  reason = fmt::format("{}: {}", kFunction,
                       status == kNotSupported   ? "this GPU does not count energy, or not in its present mode (MIG)"
                       : status == kNoPermission ? "not permitted"
                                                 : fmt::format("error {} of NVML", status));
  return std::nullopt;
}

std::vector<GpuUse::Process> Nvml::processes() const {
  if (!functions_.processes) return {};
  std::vector<NvmlProcess> list(16);
  auto count = static_cast<unsigned>(list.size());
  int status = functions_.processes(device_, &count, list.data());
  for (int attempt = 0; status == kTooSmall && attempt < 3; ++attempt) {
    list.resize(count + 16);  // some more may start until the next call
    count = static_cast<unsigned>(list.size());
    status = functions_.processes(device_, &count, list.data());
  }
  if (status != 0) return {};
  std::vector<GpuUse::Process> found;
  for (unsigned i = 0; i < count; ++i) {
    GpuUse::Process& p = found.emplace_back();
    p.pid = list[i].pid;
    if (list[i].memory_bytes != ~0ull) p.memory_bytes = static_cast<int64_t>(list[i].memory_bytes);
  }
  return found;
}

std::vector<GpuUse::Process> Nvml::others(int64_t own) const {
  std::vector<GpuUse::Process> list = processes();
  if (std::erase_if(list, [own](const GpuUse::Process& p) { return p.pid == own; }) == 0 && !list.empty())
    list.assign(list.size() - 1, {});
  return list;
}

bool Nvml::mig() const {
  unsigned now = 0, pending = 0;
  return functions_.mig && functions_.mig(device_, &now, &pending) == 0 && now != 0;
}

}  // namespace duet::cuda
