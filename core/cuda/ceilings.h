// SPDX-License-Identifier: Apache-2.0
// Measures the limits of the GPU (core/ceiling.h): by the passes of gpu_pass.cu and by transfers and launches in
// ceilings.cpp, by a large cuBLAS product in cublas_ceilings.cpp. measure_gpu_ceilings() in core/gpu.h calls both.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/cuda/gpu_context.h"

namespace duet::cuda {

std::vector<Ceiling> measure_ceilings(GpuContext& gpu, bool quick);
std::vector<Ceiling> measure_library_ceilings(GpuContext& gpu, bool quick);  // the large library GEMM on random data

// Whether mma.sync and wgmma are the fastest products of this architecture (90 for 9.0). On sm_100 to sm_119
// libraries use tcgen05 (PTX ISA 9.0), and no kernel here does: their rows could exceed a ceiling of mma.sync.
bool has_tensor_ceiling(int capability);
// Samples of the device time of run(), each of a batch that lasts at least 100 us, or of max_batch runs. Seconds of one
// run, ascending.
std::vector<double> device_samples(GpuContext& gpu, const std::function<void()>& run, bool quick, int max_batch = 400);
// The same of run(), which lasts once_s, for a second and more without a pause: a GPU under full load heats up, and its
// power limit lowers the clock, which bursts do not show. The first half second is not among them.
std::vector<double> sustained_samples(DeviceQueue& queue, const std::function<void()>& run, double once_s);
// A ceiling without its value; pattern, dtype and footprint where they apply.
Ceiling gpu_ceiling(std::string name, std::string unit, std::string pattern = {}, std::string dtype = {},
                    int64_t footprint_bytes = 0);
// `what` with samples as rates: `work` (bytes or flops of one run) divided by each duration. Its value is their 95th
// percentile.
Ceiling rate(Ceiling what, double work, const std::vector<double>& seconds);
// Appends the rate of run() in bursts, of which `seconds` are the device_samples, and, unless quick, the sustained one
// as "<name>.sustained". The burst is the roof of rows: none is faster. A row of seconds can reach no more than the
// sustained one.
void add_rates(GpuContext& gpu, const Ceiling& what, double work, const std::vector<double>& seconds,
               const std::function<void()>& run, bool quick, std::vector<Ceiling>& all);

}  // namespace duet::cuda
