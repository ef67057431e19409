// SPDX-License-Identifier: Apache-2.0
// What profilers of a GPU are to capture, where they were told to wait for it (nsys --capture-range=cudaProfilerApi).
// Nothing happens without a GPU or without a profiler. A header of its own, since kernels include core/gpu.h.
#pragma once

namespace duet {

void start_gpu_capture();
void stop_gpu_capture();

}  // namespace duet
