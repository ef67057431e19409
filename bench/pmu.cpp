// SPDX-License-Identifier: Apache-2.0
// The format is described in the kernel's Documentation/ABI/testing/sysfs-bus-event_source-devices-{events,format}.
#include "bench/pmu.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace duet::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDevices = "/sys/bus/event_source/devices";

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

template <class Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  if constexpr (std::is_integral_v<Number>) {
    if (text.starts_with("0x")) {
      text.remove_prefix(2);
      base = 16;
    }
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  } else {
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// "0-1,8": {0, 1, 8}.
std::optional<std::vector<int>> cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string_view range : split(text, ',')) {
    const size_t dash = range.find('-');
    const auto first = number<int>(range.substr(0, dash));
    const auto last = dash == range.npos ? first : number<int>(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last - *first > 1 << 16) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

// Puts `value` where "config:0-7" or "config:8" says.
bool place(std::string_view format, uint64_t value, uint64_t& config) {
  constexpr std::string_view kField = "config:";
  if (!format.starts_with(kField)) return false;
  format.remove_prefix(kField.size());
  const size_t dash = format.find('-');
  const auto first = number<unsigned>(format.substr(0, dash));
  const auto last = dash == format.npos ? first : number<unsigned>(format.substr(dash + 1));
  if (!first || !last || *last < *first || *last > 63) return false;
  const unsigned bits = *last - *first + 1;
  if (bits < 64 && value >> bits != 0) return false;
  config |= value << *first;
  return true;
}

}  // namespace

std::vector<std::string> pmus(const std::string& root, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + kDevices, none))
    if (const std::string name = entry.path().filename(); name.starts_with(prefix)) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<PmuEvent> read_pmu_event(const std::string& root, const std::string& pmu, const std::string& event) {
  const std::string device = root + kDevices + "/" + pmu;
  const auto words = first_line(device + "/events/" + event);
  const auto type = number<uint32_t>(first_line(device + "/type").value_or(""));
  const auto cpus = cpu_list(first_line(device + "/cpumask").value_or(""));
  if (!words || !type || !cpus || cpus->empty()) return std::nullopt;
  PmuEvent found{.type = *type, .config = 0, .cpus = *cpus, .scale = 1, .unit = {}};
  for (const std::string_view word : split(*words, ',')) {
    const size_t equals = word.find('=');
    const auto value = equals == word.npos ? std::optional<uint64_t>(1) : number<uint64_t>(word.substr(equals + 1));
    const auto format = first_line(device + "/format/" + std::string(word.substr(0, equals)));
    if (!value || !format || !place(*format, *value, found.config)) return std::nullopt;
  }
  if (const auto scale = first_line(device + "/events/" + event + ".scale")) {
    const auto factor = number<double>(*scale);
    if (!factor || !(*factor > 0)) return std::nullopt;
    found.scale = *factor;
  }
  found.unit = first_line(device + "/events/" + event + ".unit").value_or("");
  return found;
}

}  // namespace duet::bench
