// SPDX-License-Identifier: Apache-2.0
// What is read of NVML, with a library of our own in its place.
#include "core/cuda/nvml.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

namespace duet::cuda {
namespace {

// The library's state: what its functions return, and how often it was started and shut down.
struct FakeLibrary {
  int init_status = 0, device_status = 0, read_status = 0;
  int started = 0, shut_down = 0;
  unsigned sm_mhz = 1755, memory_mhz = 2619, celsius = 64, milliwatts = 689500;
  unsigned long long reasons = 0, millijoules = 123456789012;
  int energy_status = 0;
  unsigned running = 0, mig = 0;
  char bus[64] = "";
} library;
int a_device;

NvmlFunctions fake() {
  library = {};
  NvmlFunctions f;
  f.init = [] {
    library.started += library.init_status == 0;
    return library.init_status;
  };
  f.shutdown = [] {
    ++library.shut_down;
    return 0;
  };
  f.by_pci_bus = [](const char* bus, void** device) {
    std::strncpy(library.bus, bus, sizeof library.bus - 1);
    *device = &a_device;
    return library.device_status;
  };
  f.clock = [](void* device, int which, unsigned* mhz) {
    EXPECT_EQ(device, &a_device);
    *mhz = which == 1 ? library.sm_mhz : which == 2 ? library.memory_mhz : 0;
    return library.read_status;
  };
  f.temperature = [](void*, int sensor, unsigned* celsius) {
    *celsius = sensor == 0 ? library.celsius : 0;
    return library.read_status;
  };
  f.power = [](void*, unsigned* milliwatts) {
    *milliwatts = library.milliwatts;
    return library.read_status;
  };
  f.reasons = [](void*, unsigned long long* bits) {
    *bits = library.reasons;
    return library.read_status;
  };
  f.energy = [](void* device, unsigned long long* millijoules) {
    EXPECT_EQ(device, &a_device);
    *millijoules = library.millijoules;
    return library.energy_status;
  };
  f.driver = [](char* text, unsigned size) {
    std::snprintf(text, size, "580.65.06");
    return library.read_status;
  };
  return f;
}

TEST(Nvml, ReadsClocksTemperatureAndPowerInTheirUnits) {
  const auto nvml = Nvml::open(fake(), "00000000:01:00.0");
  ASSERT_TRUE(nvml);
  EXPECT_STREQ(library.bus, "00000000:01:00.0");
  const GpuState state = nvml->state();
  EXPECT_EQ(state.sm_clock_hz, 1755e6);
  EXPECT_EQ(state.memory_clock_hz, 2619e6);
  EXPECT_EQ(state.temperature_c, 64);
  EXPECT_EQ(state.power_w, 689.5);
  EXPECT_EQ(state.clock_event_reasons, 0u);
  EXPECT_EQ(state.throttled_by(), "");
  EXPECT_EQ(nvml->driver_version(), "580.65.06");
}

TEST(Nvml, PowerTemperatureAndHardwareThrottleAndAnIdleClockDoesNot) {
  const auto nvml = Nvml::open(fake(), "0");
  ASSERT_TRUE(nvml);
  // nvml.h: idle 1, application clocks 2, power cap 4, hardware 8, sync boost 10, software thermal 20, hardware
  // thermal 40, power brake 80, display clocks 100.
  const std::pair<unsigned long long, const char*> named[] = {{0x4, "power cap"},
                                                              {0x8, "hardware slowdown"},
                                                              {0x20, "temperature"},
                                                              {0x40, "temperature, by hardware"},
                                                              {0x80, "power brake"}};
  for (const auto& [bit, name] : named) {
    library.reasons = bit | 0x1;
    EXPECT_EQ(nvml->state().throttled_by(), name);
  }
  library.reasons = 0x24;
  EXPECT_EQ(nvml->state().throttled_by(), "power cap, temperature");
  for (const unsigned long long bit : {0x1, 0x2, 0x10, 0x100}) {
    library.reasons = bit;
    EXPECT_EQ(nvml->state().throttled_by(), "") << std::hex << bit;
  }
}

TEST(Nvml, WhatADriverDoesNotReportIsEmptyAndNoThrottling) {
  NvmlFunctions functions = fake();
  {
    const auto nvml = Nvml::open(functions, "0");
    library.reasons = 0x4;
    library.read_status = 3;  // not supported
    const GpuState state = nvml->state();
    EXPECT_FALSE(state.sm_clock_hz || state.memory_clock_hz || state.temperature_c || state.power_w);
    EXPECT_FALSE(state.clock_event_reasons);
    EXPECT_EQ(state.throttled_by(), "");
    EXPECT_EQ(nvml->driver_version(), "");
  }
  const NvmlFunctions few{.init = functions.init, .by_pci_bus = functions.by_pci_bus};  // an old library
  const auto nvml = Nvml::open(few, "0");
  ASSERT_TRUE(nvml);
  EXPECT_FALSE(nvml->state().sm_clock_hz);
  EXPECT_EQ(nvml->driver_version(), "");
}

TEST(Nvml, EnergyIsInJoulesOrHasAReason) {
  NvmlFunctions functions = fake();
  std::string reason;
  const auto nvml = Nvml::open(functions, "0");
  EXPECT_EQ(nvml->energy_j(reason), 123456789.012);
  EXPECT_EQ(reason, "");
  for (const auto& [status, part] : {std::pair{3, "does not count energy"}, {4, "not permitted"}, {15, "error 15"}}) {
    library.energy_status = status;
    EXPECT_FALSE(nvml->energy_j(reason));
    EXPECT_NE(reason.find(part), std::string::npos) << reason;
  }
  functions.energy = nullptr;  // an old library
  EXPECT_FALSE(Nvml::open(functions, "0")->energy_j(reason));
  EXPECT_NE(reason.find("has no nvmlDeviceGetTotalEnergyConsumption"), std::string::npos) << reason;
}

TEST(Nvml, ListsTheProcessesOfTheGpu) {
  NvmlFunctions functions = fake();
  EXPECT_TRUE(Nvml::open(functions, "0")->processes().empty()) << "a library without the function";
  functions.processes = [](void* device, unsigned* count, NvmlProcess* list) {
    EXPECT_EQ(device, &a_device);
    const bool fits = *count >= library.running;
    *count = library.running;
    for (unsigned i = 0; fits && i < library.running; ++i) list[i] = {100 + i, i == 0 ? ~0ull : i << 20, 0, 0};
    return library.read_status ? library.read_status : fits ? 0 : 7;
  };
  const auto nvml = Nvml::open(functions, "0");
  for (const unsigned running : {0u, 1u, 40u}) {  // 40: more than the first call has room for
    library.running = running;
    const auto found = nvml->processes();
    ASSERT_EQ(found.size(), running);
    for (unsigned i = 0; i < running; ++i) {
      EXPECT_EQ(found[i].pid, 100 + i);
      EXPECT_EQ(found[i].memory_bytes, i == 0 ? std::nullopt : std::optional<int64_t>(i << 20));
    }
  }
  const auto pids_but = [&](int64_t own) {
    std::vector<int64_t> pids;
    for (const GpuUse::Process& p : nvml->others(own)) pids.push_back(p.pid);
    return pids;
  };
  library.running = 3;
  EXPECT_EQ(pids_but(101), (std::vector<int64_t>{100, 102}));
  EXPECT_EQ(pids_but(7), (std::vector<int64_t>{0, 0})) << "of another PID namespace";
  library.running = 1;
  EXPECT_TRUE(pids_but(7).empty()) << "only this process, in a container";
  library.running = 0;
  EXPECT_TRUE(pids_but(7).empty()) << "not told";
  library.read_status = 4;  // not permitted
  EXPECT_TRUE(nvml->processes().empty());
}

TEST(Nvml, SeesWhetherTheGpuIsDivided) {
  NvmlFunctions functions = fake();
  EXPECT_FALSE(Nvml::open(functions, "0")->mig()) << "a library without the function";
  functions.mig = [](void*, unsigned* now, unsigned* pending) {
    *now = library.mig;
    *pending = 1;
    return library.read_status;
  };
  const auto nvml = Nvml::open(functions, "0");
  EXPECT_FALSE(nvml->mig()) << "after the next reset only";
  library.mig = 1;
  EXPECT_TRUE(nvml->mig());
  library.read_status = 3;  // not supported
  EXPECT_FALSE(nvml->mig());
}

TEST(Nvml, IsShutDownOnceAlsoWhereItDoesNotKnowTheDevice) {
  NvmlFunctions functions = fake();
  { const auto nvml = Nvml::open(functions, "0"); }
  EXPECT_EQ(library.started, 1);
  EXPECT_EQ(library.shut_down, 1);
  library.device_status = 6;  // not found
  EXPECT_FALSE(Nvml::open(functions, "0"));
  EXPECT_EQ(library.started, 2);
  EXPECT_EQ(library.shut_down, 2);
  library.init_status = 9;  // the driver is not loaded
  EXPECT_FALSE(Nvml::open(functions, "0"));
  EXPECT_EQ(library.shut_down, 2) << "what was not started";
  functions.init = nullptr;
  EXPECT_FALSE(Nvml::open(functions, "0"));
}

}  // namespace
}  // namespace duet::cuda
