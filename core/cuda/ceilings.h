// SPDX-License-Identifier: Apache-2.0
// What the GPU can reach: kernels for it in ceilings.cu, the library's part in cublas_ceilings.cpp.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/cuda/gpu_context.h"

namespace duet::cuda {

std::vector<Ceiling> measure_ceilings(GpuContext& gpu, bool quick);
std::vector<Ceiling> measure_library_ceilings(GpuContext& gpu, bool quick);  // the large library GEMM on random data

// A series of device-time samples of run(), each at least 100 us long. Seconds of one run, ascending.
std::vector<double> device_samples(GpuContext& gpu, const std::function<void()>& run, bool quick);
// A ceiling without its value. pattern, dtype, footprint: what applies.
Ceiling gpu_ceiling(std::string name, std::string unit, std::string pattern = {}, std::string dtype = {},
                    int64_t footprint_bytes = 0);
// `work` in bytes or flops per run and the samples as rates; value: the 95th percentile.
Ceiling rate(Ceiling what, double work, const std::vector<double>& seconds);

}  // namespace duet::cuda
