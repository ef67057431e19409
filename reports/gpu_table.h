// SPDX-License-Identifier: Apache-2.0
// Figures of GPUs from their data sheets: gpus.json, which the build embeds in the program. gpu_bound.h turns them into
// bounds. Nothing here was measured.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace duet::reports {

struct SourcedFigure {
  double value = 0;  // bytes, B/s, FLOP/s
  std::string source;
};

struct GpuFigures {
  std::string name, title;                // "h100-sxm", "NVIDIA H100 SXM5"
  std::vector<std::string> device_names;  // as CUDA's driver reports it
  SourcedFigure memory_bytes, bandwidth, l2_bytes;
  int64_t pcie_generation = 0, pcie_lanes = 0;
  SourcedFigure pcie;                                        // one direction
  std::vector<std::pair<std::string, SourcedFigure>> peaks;  // by dtype, dense
  std::vector<std::pair<std::string, std::string>> no_peak;  // dtype: why it has none
  const SourcedFigure* peak(const std::string& dtype) const;
  std::string no_peak_reason(const std::string& dtype) const;
};

struct GpuTable {
  std::string file;
  double launch_s = 0;
  std::string launch_definition, launch_source;
  std::vector<GpuFigures> gpus;
  const GpuFigures& find(const std::string& name) const;  // throws Error that lists the known names
  const GpuFigures* with_device(const std::string& device_name) const;
};

GpuTable built_in_gpus();
// `name`: of the file the text is from. Throws Error: file, member, value and what is allowed.
GpuTable parse_gpus(const std::string& text, const std::string& name);

}  // namespace duet::reports
