// SPDX-License-Identifier: Apache-2.0
// The way to the GPU for programs that also exist without CUDA: core/cuda/ implements it, core/no_cuda/ says why not.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/context.h"

namespace duet {

// Null with `reason` set when there is no CUDA build, no driver, a driver that is too old, or no device.
std::unique_ptr<Context> open_gpu(std::string& reason);

// Memory that can still be allocated on the context's device, in bytes; of the host, where that is a CPU.
int64_t available_bytes(Context& context);

// Work recorded once, to be enqueued as a whole with one launch.
class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;
  virtual void replay() = 0;
};
// Records what run() enqueues, without executing it. Addresses and sizes are fixed from then on. Null with `reason` set:
// the device has no graphs, or run() does what cannot be recorded. Replay it while the context lives.
std::unique_ptr<RecordedGraph> record_graph(Context& context, const std::function<void()>& run, std::string& reason);

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
