// SPDX-License-Identifier: Apache-2.0
// The counter of a GPU's memory traffic, for gpu_counters.cpp: cupti.cpp, or no_cupti.cpp where CUPTI was not found.
#pragma once
#include <memory>
#include <string>

#include "core/gpu_counters.h"

namespace duet::cuda {

std::unique_ptr<GpuTraffic> open_traffic(int device, std::string& reason);  // null with `reason`

}  // namespace duet::cuda
