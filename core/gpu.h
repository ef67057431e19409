// SPDX-License-Identifier: Apache-2.0
// Access to the GPU for programs that also exist without CUDA: core/cuda/ implements these functions; core/no_cuda/
// stands in for it and reports why there is no GPU.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/context.h"

namespace duet {

// Null with `reason` set when this build has no CUDA, or there is no driver, only one that is too old, or no device.
std::unique_ptr<Context> open_gpu(std::string& reason);

// The first error after which this process can use no GPU any more (an illegal address, a failed launch, ...); empty
// while it can. core/cuda/check.cpp reports it; a process in which one occurred measures nothing more on a GPU.
std::string lost_gpu();
void report_lost_gpu(const std::string& error);
void require_usable_gpu();  // throws Error when one was lost

// Bytes that can still be allocated on the context's device; on the host, where the context is not a GPU's.
int64_t available_bytes(Context& context);

// Work recorded once, to be enqueued as a whole with one launch.
class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;
  virtual void replay() = 0;
};
// Records what run() enqueues, without executing it. Addresses and sizes are fixed from then on. Null with `reason` set
// when the device has no graphs, or run() does something that cannot be recorded. The graph must not outlive the
// context.
std::unique_ptr<RecordedGraph> record_graph(Context& context, const std::function<void()>& run, std::string& reason);

// What a report says about a GPU; fields that could not be read are "unavailable".
struct GpuInfo {
  std::string name, sm, memory, driver, runtime, cublas, cudnn;
  int64_t memory_bytes = 0, l2_bytes = 0;
};
bool gpu_info(Context& gpu, GpuInfo& info);  // false: the context is not a GPU's
std::vector<std::pair<std::string, std::string>>
gpu_build_versions();  // CUDA, cuBLAS, cuDNN as compiled; empty without

// The GPU's clock now, and whether power, temperature or the hardware lowered it. Empty where the context is no GPU's,
// or NVML does not tell.
struct GpuClock {
  double sm_mhz = 0;
  bool throttled = false;
};
std::optional<GpuClock> gpu_clock(Context& context);

// Who else uses the GPU, and whether it is a part of one (MIG), as NVML tells. Empty where the context is no GPU's, or
// there is no NVML.
struct GpuUse {
  struct Process {
    int64_t pid = 0;
    std::optional<int64_t> memory_bytes;  // of the GPU
  };
  std::vector<Process> others;  // with a context on it: not this process, and not the one that started it
  bool mig = false;
};
std::optional<GpuUse> gpu_use(Context& context);

// Copy, read, update, triad, FMA and tensor peaks, host-device copies, launch latency. quick: few and short.
std::vector<Ceiling> measure_gpu_ceilings(Context& gpu, bool quick);

}  // namespace duet
