// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/launch.h"

#include <mutex>
#include <unordered_map>

#include "core/cuda/check.h"
#include "core/cuda/cooperative.h"
#include "core/error.h"

namespace duet::cuda {
namespace {
constexpr int64_t kDefaultShared = 48 * 1024;  // bytes that a kernel may use without setting an attribute

int64_t max_shared_bytes() {
  int device = 0, bytes = 0;
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

// Raises the kernel's limit of dynamic shared memory, once per kernel and size.
void allow_shared(const void* kernel, int64_t bytes) {
  if (bytes <= kDefaultShared) return;
  static std::mutex mutex;
  static std::unordered_map<const void*, int64_t> allowed;
  const std::lock_guard lock(mutex);
  int64_t& granted = allowed[kernel];
  if (bytes <= granted) return;
  if (const int64_t max = max_shared_bytes(); bytes > max)
    throw Error("launch: {} bytes of shared memory over this device's limit {}", bytes, max);
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  granted = bytes;
}

dim3 dim(const Extent& e) {
  return {static_cast<unsigned>(e.x), static_cast<unsigned>(e.y), static_cast<unsigned>(e.z)};
}
void launch(const void* kernel, const Grid& grid, void** args, bool cooperative) {
  if (!launchable(grid)) return;
  allow_shared(kernel, grid.shared_bytes);

  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim(grid.blocks);
  config.blockDim = dim(grid.threads);
  config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
  config.stream = grid.stream;
  config.attrs = &attribute;
  config.numAttrs = cooperative ? 1 : 0;
  DUET_CUDA(cudaLaunchKernelExC(&config, kernel, args));
}
}  // namespace

void launch_kernel(const void* kernel, const Grid& grid, void** args) { launch(kernel, grid, args, false); }
void launch_cooperative_kernel(const void* kernel, const Grid& grid, void** args) { launch(kernel, grid, args, true); }

int64_t cooperative_blocks(const void* kernel, int threads, int64_t shared_bytes, int multiprocessors) {
  int device = 0, supported = 0, resident = 0;
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device));
  if (!supported) return 0;
  allow_shared(kernel, shared_bytes);
  DUET_CUDA(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, static_cast<size_t>(shared_bytes)));
  return int64_t{multiprocessors} * resident;
}

}  // namespace duet::cuda
