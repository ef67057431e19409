// The way to the GPU for programs that also exist without CUDA: core/cuda/ implements it, core/no_cuda/ says why not.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/context.h"

namespace duet {

// Null with `reason` set when there is no CUDA build, no driver, a driver that is too old, or no device.
std::unique_ptr<Context> open_gpu(std::string& reason);

// What a report says about a GPU; fields that could not be read are "unavailable".
struct GpuInfo {
  std::string name, sm, memory, driver, runtime, cublas, cudnn;
  int64_t memory_bytes = 0, l2_bytes = 0;
};
bool gpu_info(Context& gpu, GpuInfo& info);  // false: the context is not a GPU's
std::vector<std::pair<std::string, std::string>>
gpu_build_versions();  // CUDA, cuBLAS, cuDNN as compiled; empty without

// Copy, read, update, triad, FMA and tensor peaks, host-device copies, launch latency. quick: few and short.
std::vector<Ceiling> measure_gpu_ceilings(Context& gpu, bool quick);

}  // namespace duet
