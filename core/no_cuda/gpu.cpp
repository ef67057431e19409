// SPDX-License-Identifier: Apache-2.0
// core/gpu.h for builds without CUDA: there is no GPU. The configure step recorded the reason.
#include "core/gpu.h"

#include "core/build_info.h"
#include "core/machine.h"

namespace duet {

std::unique_ptr<Context> open_gpu(std::string& reason) {
  const std::string why = build_info().no_cuda;
  reason = why.empty() ? "this build has no CUDA" : "this build has no CUDA (" + why + ")";
  return nullptr;
}

bool gpu_info(Context&, GpuInfo&) { return false; }
std::vector<std::pair<std::string, std::string>> gpu_build_versions() { return {}; }
int64_t available_bytes(Context&) { return read_machine_state().available_bytes; }
std::unique_ptr<RecordedGraph> record_graph(Context& context, const std::function<void()>&, std::string& reason) {
  reason = context.describe() + " has no graphs";
  return nullptr;
}
std::optional<GpuClock> gpu_clock(Context&) { return std::nullopt; }
std::optional<GpuUse> gpu_use(Context&) { return std::nullopt; }
std::vector<Ceiling> measure_gpu_ceilings(Context&, bool) { return {}; }

}  // namespace duet
