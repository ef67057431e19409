// SPDX-License-Identifier: Apache-2.0
// cublasAxpyEx, with arithmetic in f32 for every element type.
#include "core/cuda/cublas.h"
#include "ops/elementwise/axpy.h"

namespace duet::cuda {
namespace {
Plan axpy_cublas(const Axpy& p, GpuContext& gpu) {
  if (!cublas_takes(p.dtype)) return Unsupported{"dtype other than f32, bf16 and f16"};
  if (p.n > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  return [p, handle = gpu.cublas()](Args t) {
    const auto alpha = static_cast<float>(p.alpha);
    if (alpha == 0) return;
    const cudaDataType_t type = cublas_dtype(p.dtype);
    DUET_CUBLAS(cublasAxpyEx(handle, static_cast<int>(p.n), &alpha, CUDA_R_32F, t[Axpy::x].data, type, 1,
                             t[Axpy::y].data, type, 1, CUDA_R_32F));
  };
}
DUET_REGISTER(axpy_cublas);
}  // namespace
}  // namespace duet::cuda
