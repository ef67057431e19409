// SPDX-License-Identifier: Apache-2.0
// Whether this program has code with wgmma for the device: only code for sm_90a has (simt/wgmma.h).
#include "simt/wgmma.h"

#ifdef __CUDACC__
#include "core/cuda/kernel_code.h"
#endif

namespace duet::DUET_DEVICE {

#ifdef __CUDACC__
namespace {
// Never launched. Its shared memory tells which of its compilations the device would run.
__global__ void wgmma_code_kernel(float* sink) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  DUET_SHARED(float, mark, [1]);
  mark[0] = *sink;
  __syncthreads();
  *sink = mark[0];
#endif
}
}  // namespace

bool has_wgmma(int capability) {
  if (capability != 90) return false;
  static const bool is_compiled = static_shared_bytes(reinterpret_cast<const void*>(&wgmma_code_kernel)) > 0;
  return is_compiled;
}
#else
bool has_wgmma(int capability) { return capability == 90; }
#endif

}  // namespace duet::DUET_DEVICE
