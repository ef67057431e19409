// SPDX-License-Identifier: Apache-2.0
#include "reports/gpu_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "results/json_node.h"

namespace duet {
extern const char* const duet_gpus_json;  // gpus.json, embedded by the build
}

namespace duet::reports {
namespace {

using results::Allow;
using results::Json;
using results::JsonSource;
using results::Node;

constexpr const char* kDTypes[] = {"f64", "f32", "f32/tf32", "bf16", "f16", "i32", "i8", "u8", "f8e4m3"};
constexpr double kGiga = 1e9, kTera = 1e12;

// The text of a source whose key stands in the table.
std::string source_of(const Node& figure, const Node& sources) {
  const Node key = figure.at("source");
  const auto found = sources.find(key.text(Allow::not_empty).c_str());
  if (!found) key.fail(fmt::format("'{}' is not one of the sources of this file", key.text()));
  return found->text(Allow::not_empty);
}

SourcedFigure figure_of(const Node& figure, const Node& sources, double unit) {
  return {unit * figure.at("value").number(Allow::positive), source_of(figure, sources)};
}

// A name is part of command lines and of identifiers in charts.
std::string checked_name(const Node& node) {
  std::string name = node.text(Allow::not_empty);
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (!plain) node.fail(fmt::format("'{}' is not made of a-z, 0-9 and hyphens", name));
  return name;
}

std::string checked_dtype(const std::string& dtype, const Node& at) {
  std::string known;
  for (const char* candidate : kDTypes) {
    if (dtype == candidate) return dtype;
    known += std::string(known.empty() ? "" : " ") + candidate;
  }
  at.fail(fmt::format("'{}' is not one of {}", dtype, known));
}

GpuFigures gpu_of(const Node& node, const Node& root) {
  const Node sources = root.at("sources");
  GpuFigures gpu;
  gpu.name = checked_name(node.at("name"));
  gpu.title = node.at("title").text(Allow::not_empty);
  for (const Node& name : node.at("device_names").items()) gpu.device_names.push_back(name.text(Allow::not_empty));
  gpu.memory_bytes = figure_of(node.at("memory_GB"), sources, kGiga);
  gpu.bandwidth = figure_of(node.at("bandwidth_GB_per_s"), sources, kGiga);
  gpu.l2_bytes = figure_of(node.at("l2_mib"), sources, 0x1p20);
  const Node pcie = node.at("pcie");
  gpu.pcie_generation = pcie.at("generation").integer(Allow::at_least_one);
  gpu.pcie_lanes = pcie.at("lanes").integer(Allow::at_least_one);
  const auto lane = root.at("pcie_GB_per_s_per_lane").find(std::to_string(gpu.pcie_generation).c_str());
  if (!lane) pcie.at("generation").fail(fmt::format("{} has no rate in pcie_GB_per_s_per_lane", gpu.pcie_generation));
  gpu.pcie = figure_of(*lane, sources, kGiga * static_cast<double>(gpu.pcie_lanes));
  gpu.pcie.source = source_of(pcie, sources) + "; " + gpu.pcie.source;
  for (const auto& [dtype, figure] : node.at("peaks").members())
    gpu.peaks.emplace_back(checked_dtype(dtype, figure), figure_of(figure, sources, kTera));
  if (const auto without = node.find("no_peak"))
    for (const auto& [dtype, reason] : without->members())
      gpu.no_peak.emplace_back(checked_dtype(dtype, reason), reason.text(Allow::not_empty));
  return gpu;
}

// Later members would silently replace earlier ones of their name.
Json parsed(const std::string& text, const std::string& name) {
  std::vector<std::set<std::string>> open;
  std::string repeated;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception& e) {
    throw Error("{}: not JSON: {}", name, e.what());
  }
  if (!repeated.empty()) throw Error("{}: member '{}' occurs twice in one object", name, repeated);
  return json;
}

}  // namespace

const SourcedFigure* GpuFigures::peak(const std::string& dtype) const {
  for (const auto& [name, figure] : peaks)
    if (name == dtype) return &figure;
  return nullptr;
}

std::string GpuFigures::no_peak_reason(const std::string& dtype) const {
  for (const auto& [name, reason] : no_peak)
    if (name == dtype) return reason;
  return fmt::format("the sources of {} have no figure for {}", name, dtype);
}

const GpuFigures& GpuTable::find(const std::string& name) const {
  std::string known;
  for (const GpuFigures& gpu : gpus) {
    if (gpu.name == name) return gpu;
    known += (known.empty() ? "" : " ") + gpu.name;
  }
  throw Error("GPU '{}' is not one of {}{}", name, known, file.empty() ? "" : " (of " + file + ")");
}

const GpuFigures* GpuTable::with_device(const std::string& device_name) const {
  for (const GpuFigures& gpu : gpus)
    if (std::find(gpu.device_names.begin(), gpu.device_names.end(), device_name) != gpu.device_names.end()) return &gpu;
  return nullptr;
}

GpuTable parse_gpus(const std::string& text, const std::string& name) {
  const Json json = parsed(text, name);
  const JsonSource source{name, json};
  const Node root(source);
  GpuTable table;
  table.file = name;
  const Node launch = root.at("launch");
  table.launch_s = 1e-6 * launch.at("us").number(Allow::not_negative);
  table.launch_definition = launch.at("definition").text(Allow::not_empty);
  table.launch_source = source_of(launch, root.at("sources"));
  std::set<std::string> names;
  for (const Node& node : root.at("gpus").items()) {
    table.gpus.push_back(gpu_of(node, root));
    if (!names.insert(table.gpus.back().name).second)
      node.at("name").fail(fmt::format("'{}' occurs twice", table.gpus.back().name));
  }
  if (table.gpus.empty()) root.at("gpus").fail("no GPU in it");
  return table;
}

GpuTable built_in_gpus() {
  GpuTable table = parse_gpus(duet_gpus_json, "gpus.json");
  table.file.clear();
  return table;
}

}  // namespace duet::reports
