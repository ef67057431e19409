// SPDX-License-Identifier: Apache-2.0
// core/cuda/traffic.h for builds without CUPTI.
#include "core/cuda/traffic.h"

namespace duet::cuda {

std::unique_ptr<GpuTraffic> open_traffic(int, std::string& reason) {
  reason = "this build has no CUPTI with a range profiler (CUDA 12.6 or newer)";
  return nullptr;
}

}  // namespace duet::cuda
