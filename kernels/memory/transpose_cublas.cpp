// SPDX-License-Identifier: Apache-2.0
// cuBLAS geam, which scales and adds: y = 1 * x' + 0 * y. It is column-major: a row-major (rows, cols) matrix is (cols,
// rows) to it.
#include "core/cuda/cublas.h"
#include "ops/memory/transpose.h"

namespace duet::cuda {
namespace {
Plan transpose_cublas(const Transpose& p, GpuContext& gpu) {
  if (p.dtype != DType::f32) return Unsupported{"geam has no dtype other than f32"};
  if (p.batch != 1) return Unsupported{"geam takes one matrix"};
  if (p.rows * p.cols == 0) return Unsupported{"geam takes no empty matrix"};
  if (p.rows > INT32_MAX || p.cols > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  const int rows = static_cast<int>(p.rows), cols = static_cast<int>(p.cols);
  return [handle = gpu.cublas(), rows, cols](Args t) {
    const float one = 1, zero = 0;
    const auto* x = t[Transpose::x].as<const float>();
    auto* y = t[Transpose::y].as<float>();
    DUET_CUBLAS(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, cols, &one, x, cols, &zero, y, rows, y, rows));
  };
}
DUET_REGISTER(transpose_cublas);
}  // namespace
}  // namespace duet::cuda
