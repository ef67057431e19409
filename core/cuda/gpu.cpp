// SPDX-License-Identifier: Apache-2.0
// core/gpu.h for builds with CUDA.
#include "core/gpu.h"

#include <unistd.h>

#include <cstdlib>

#include "core/build_info.h"
#include "core/cuda/ceilings.h"
#include "core/cuda/check.h"
#include "core/cuda/device_work.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/nvml.h"
#include "core/cuda/versions.h"
#include "core/error.h"
#include "core/machine.h"

namespace duet {
namespace {
std::string dotted(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }  // 13000: 13.0

// Why no GPU can be used, or "".
std::string unavailable_reason() {
  int driver = 0, runtime = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = CUDART_VERSION;
  cudaGetLastError();
  if (driver == 0) return fmt::format("no CUDA driver (driver: none, runtime {})", dotted(runtime));
  const std::string versions = fmt::format("driver {}, runtime {}", dotted(driver), dotted(runtime));
  if (driver / 1000 < runtime / 1000)
    return fmt::format("the CUDA driver is too old: this build needs one for CUDA {}.0 or newer ({})", runtime / 1000,
                       versions);
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    cudaGetLastError();
    return fmt::format("no CUDA device: {} ({})", cudaGetErrorString(status), versions);
  }
  if (devices == 0) return fmt::format("no CUDA device ({})", versions);
  if (const cudaError_t status = cuda::probe_code(); status != cudaSuccess) {
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, 0);
    return fmt::format("this build holds code for {}, not for {} (sm_{}{}): {} ({})", build_info().cuda_architectures,
                       properties.name, properties.major, properties.minor, cudaGetErrorString(status), versions);
  }
  return "";
}
}  // namespace

std::unique_ptr<Context> open_gpu(std::string& reason) {
  // Set before the first CUDA call: a module that loads while the blocker runs, or inside a capture, fails or stalls.
  // A choice of the user stays: LAZY starts faster, and the first call of each job is not queued behind the blocker.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  reason = unavailable_reason();
  if (!reason.empty()) return nullptr;
  try {
    return std::make_unique<cuda::GpuContext>();
  } catch (const Error& e) {
    reason = e.what();
    return nullptr;
  }
}

bool gpu_info(Context& context, GpuInfo& info) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu) return false;
  const auto known = [](std::string text) { return text.empty() ? std::string("unavailable") : text; };
  int driver = 0, runtime = 0;
  DUET_CUDA(cudaDriverGetVersion(&driver));
  DUET_CUDA(cudaRuntimeGetVersion(&runtime));
  const cuda::Nvml* nvml = gpu->nvml();
  const std::string version = nvml ? nvml->driver_version() : "";
  info.name = gpu->name();
  info.sm = fmt::format("{}.{}", gpu->capability() / 10, gpu->capability() % 10);
  info.memory = fmt::format("{:.1f} GB", gpu->memory_bytes() / 1e9);
  info.driver = version.empty() ? "CUDA " + dotted(driver) : fmt::format("{} (CUDA {})", version, dotted(driver));
  info.runtime = dotted(runtime);
  info.cublas = known(cuda::cublas_version());
  info.cudnn = known(cuda::cudnn_version());
  info.memory_bytes = gpu->memory_bytes();
  info.l2_bytes = gpu->l2_bytes();
  return true;
}

int64_t available_bytes(Context& context) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  return gpu ? gpu->available_bytes() : read_machine_state().available_bytes;
}

std::unique_ptr<RecordedGraph> record_graph(Context& context, const std::function<void()>& run, std::string& reason) {
  if (auto* gpu = dynamic_cast<cuda::GpuContext*>(&context)) return gpu->record(run, reason);
  reason = context.describe() + " has no graphs";
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> gpu_build_versions() {
  std::vector<std::pair<std::string, std::string>> versions{{"CUDA", dotted(CUDART_VERSION)}};
  if (const auto v = cuda::cublas_header_version(); !v.empty()) versions.emplace_back("cuBLAS", v);
  if (const auto v = cuda::cudnn_header_version(); !v.empty()) versions.emplace_back("cuDNN", v);
  return versions;
}

std::optional<GpuClock> gpu_clock(Context& context) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu || !gpu->nvml()) return std::nullopt;
  const cuda::GpuState state = gpu->nvml()->state();
  if (!state.sm_clock_hz) return std::nullopt;
  return GpuClock{.sm_mhz = *state.sm_clock_hz * 1e-6, .throttled = !state.throttled_by().empty()};
}

std::optional<GpuUse> gpu_use(Context& context) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu || !gpu->nvml()) return std::nullopt;
  GpuUse use{.others = gpu->nvml()->others(getpid()), .mig = gpu->nvml()->mig()};
  std::erase_if(use.others, [](const GpuUse::Process& p) { return p.pid == getppid(); });
  return use;
}

std::vector<Ceiling> measure_gpu_ceilings(Context& context, bool quick) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  if (!gpu) return {};
  std::vector<Ceiling> all = cuda::measure_ceilings(*gpu, quick);
  for (Ceiling& c : cuda::measure_library_ceilings(*gpu, quick)) all.push_back(std::move(c));
  return all;
}

}  // namespace duet
