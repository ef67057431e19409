// SPDX-License-Identifier: Apache-2.0
// cuBLAS, whose matrices are column-major: a row-major (rows, cols) matrix is (cols, rows) to it. f32 by cublasSgemv;
// bf16 and f16, which have no gemv of their own with a result of their type, as a product with a matrix of one column.
#include <algorithm>

#include "core/cuda/cublas.h"
#include "ops/gemm/gemv.h"

namespace duet::cuda {
namespace {
Plan gemv_cublas(const Gemv& p, GpuContext& gpu) {
  if (!cublas_takes(p.dtype)) return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  if (p.m * p.n == 0) return Unsupported{"cuBLAS takes no empty matrix"};
  if (std::max(p.m, p.n) > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n);
  const auto op = p.trans ? CUBLAS_OP_N : CUBLAS_OP_T;
  const int rows = p.trans ? m : n, cols = p.trans ? n : m;  // of a, column-major
  const cublasHandle_t handle = gpu.cublas();
  if (p.dtype == DType::f32)
    return Plan([=](Args t) {
             const float one = 1, zero = 0;
             DUET_CUBLAS(cublasSgemv(handle, op, rows, cols, &one, t[Gemv::a].as<const float>(), rows,
                                     t[Gemv::x].as<const float>(), 1, &zero, t[Gemv::y].as<float>(), 1));
           })
        .with("sgemv");
  return Plan([=, type = cublas_dtype(p.dtype)](Args t) {
           const float one = 1, zero = 0;
           DUET_CUBLAS(cublasGemmEx(handle, op, CUBLAS_OP_N, m, 1, n, &one, t[Gemv::a].data, type, rows,
                                    t[Gemv::x].data, type, n, &zero, t[Gemv::y].data, type, m, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT));
         })
      .with("gemm of one column");
}
DUET_REGISTER(gemv_cublas);
}  // namespace
}  // namespace duet::cuda
