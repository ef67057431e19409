// SPDX-License-Identifier: Apache-2.0
// Bounds as JSON, for `duet project --json`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/gpu_bound.h"

namespace duet::reports {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
Json to_json(const SourcedFigure& figure) { return {{"value", figure.value}, {"source", figure.source}}; }

Json to_json(const std::optional<GpuTimeBound>& bound) {
  if (!bound) return nullptr;
  return {{"bound_s", bound->time_s},
          {"certain_s", bound->certain_s},
          {"max_speedup", bound->ratio},
          {"gpu", to_text(bound->outlook)},
          {"measured_s", to_json(bound->measured_s)},
          {"reached", to_json(bound->reached)}};
}

Json to_json(const GpuBreakEven& at) {
  static constexpr const char* kKinds[] = {"no bound", "never", "doubtful", "from smallest", "between"};
  Json json{{"kind", kKinds[static_cast<size_t>(at.kind)]}};
  if (at.kind == GpuBreakEven::Kind::between) json["below"] = at.below;
  if (at.from > 0) json["from"] = at.from;
  if (at.largest > 0) json["largest_measured"] = at.largest;
  return json;
}

Json to_json(const GpuBoundRow& row) {
  return {{"case", row.case_name},
          {"family", row.family},
          {"cpu_impl", row.cpu.job->impl},
          {"cpu_s", row.cpu.call->summary.median_s},
          {"cpu_far_below_its_roof", row.weak_cpu},
          {"no_bound_reason", row.no_bound_reason},
          {"limit", row.limit},
          {"resident", to_json(row.resident)},
          {"with_copies", to_json(row.with_copies)},
          {"measured_impl", row.measured_impl}};
}

Json to_json(const GpuBound& bound) {
  const GpuFigures& gpu = *bound.gpu;
  Json peaks = Json::object();
  for (const auto& [dtype, peak] : gpu.peaks) peaks[dtype] = to_json(peak);
  Json json{{"name", gpu.name},
            {"title", gpu.title},
            {"summary", gpu_bound_sentence(bound)},
            {"measured_device", bound.measured_device},
            {"figures",
             {{"memory_bytes", to_json(gpu.memory_bytes)},
              {"bandwidth_byte_per_s", to_json(gpu.bandwidth)},
              {"l2_bytes", to_json(gpu.l2_bytes)},
              {"pcie_byte_per_s", to_json(gpu.pcie)},
              {"peak_flop_per_s", std::move(peaks)}}},
            {"cases", Json::array()},
            {"break_even", Json::array()}};
  for (const GpuBoundRow& row : bound.rows) json["cases"].push_back(to_json(row));
  for (const GpuBreakEvenRow& row : bound.break_evens)
    json["break_even"].push_back({{"op", row.sweep->op},
                                  {"dtype", row.sweep->dtype},
                                  {"size_name", row.sweep->size_name},
                                  {"resident", to_json(row.resident)},
                                  {"with_copies", to_json(row.with_copies)}});
  return json;
}

}  // namespace

std::string gpu_bound_json(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table) {
  Json json{{"what", "upper bounds of speedups by data sheets; not measurements"},
            {"cpu", run.machine.cpu.name},
            {"run", run.invocation.id},
            {"launch",
             {{"value_s", table.launch_s}, {"definition", table.launch_definition}, {"source", table.launch_source}}},
            {"gpus", Json::array()}};
  for (const GpuBound& bound : bounds) json["gpus"].push_back(to_json(bound));
  return json.dump(1) + "\n";
}

}  // namespace duet::reports
