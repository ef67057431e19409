// SPDX-License-Identifier: Apache-2.0
// Counters that the kernel describes under /sys/bus/event_source/devices: those of memory controllers (uncore_imc) and
// of energy (power). Used by meters.cpp. root: "" for this machine; tests pass the folder of an invented one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace duet::bench {

// What perf_event_open takes for an event, on each of `cpus`; a count times `scale` is in `unit` ("MiB", "Joules").
struct PmuEvent {
  uint32_t type = 0;
  uint64_t config = 0;
  std::vector<int> cpus;
  double scale = 1;
  std::string unit;
};

std::vector<std::string> pmus(const std::string& root, std::string_view prefix);  // names, sorted
// Empty where the device has no such event, or describes it by what is not read here.
std::optional<PmuEvent> read_pmu_event(const std::string& root, const std::string& pmu, const std::string& event);

}  // namespace duet::bench
