// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/constant.h"

#include "core/cuda/check.h"

namespace duet::cuda {

void load_constant_variable(const void* variable) {
  void* address = nullptr;
  DUET_CUDA(cudaGetSymbolAddress(&address, variable));
}

void fill_constant_variable(const void* variable, const void* from, int64_t bytes, cudaStream_t stream) {
  if (bytes > 0)
    DUET_CUDA(cudaMemcpyToSymbolAsync(variable, from, static_cast<size_t>(bytes), 0, cudaMemcpyDeviceToDevice, stream));
}

}  // namespace duet::cuda
