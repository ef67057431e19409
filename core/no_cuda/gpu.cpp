// core/gpu.h for builds without CUDA: there is no GPU, and the reason is known since configuration.
#include "core/gpu.h"

#include "core/build_info.h"

namespace duet {

std::unique_ptr<Context> open_gpu(std::string& reason) {
  const std::string why = build_info().no_cuda;
  reason = why.empty() ? "this build has no CUDA" : "this build has no CUDA (" + why + ")";
  return nullptr;
}

bool gpu_info(Context&, GpuInfo&) { return false; }
std::vector<std::pair<std::string, std::string>> gpu_build_versions() { return {}; }
std::vector<Ceiling> measure_gpu_ceilings(Context&, bool) { return {}; }

}  // namespace duet
