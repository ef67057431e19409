// SPDX-License-Identifier: Apache-2.0
// core/gpu_counters.h for builds with CUDA.
#include "core/gpu_counters.h"

#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/nvml.h"
#include "core/cuda/traffic.h"

namespace duet {
namespace {

cuda::GpuContext* gpu_of(Context& context, std::string& reason) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu) reason = context.describe() + " is no GPU";
  return gpu;
}

}  // namespace

std::optional<GpuLimits> gpu_limits(Context& context) {
  std::string reason;
  const cuda::GpuContext* gpu = gpu_of(context, reason);
  if (!gpu || !gpu->nvml()) return std::nullopt;
  const cuda::GpuState state = gpu->nvml()->state();
  GpuLimits limits{.memory_mhz = {}, .throttled_by = state.throttled_by()};
  if (state.memory_clock_hz) limits.memory_mhz = *state.memory_clock_hz * 1e-6;
  return limits;
}

std::optional<double> gpu_energy_j(Context& context, std::string& reason) {
  const cuda::GpuContext* gpu = gpu_of(context, reason);
  if (!gpu) return std::nullopt;
  if (gpu->nvml()) return gpu->nvml()->energy_j(reason);
  reason = "NVML (libnvidia-ml.so.1) cannot be loaded, or does not know the GPU";
  return std::nullopt;
}

std::unique_ptr<GpuTraffic> open_gpu_traffic(Context& context, std::string& reason) {
  if (!gpu_of(context, reason)) return nullptr;
  int device = 0;
  DUET_CUDA(cudaGetDevice(&device));
  return cuda::open_traffic(device, reason);
}

}  // namespace duet
