// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: the product of i8 with sums in i32, y' (out, n) = w x' in its column-major view; then our own pass scales
// the sums and adds the bias, which no epilogue of such a product does. Where every extent and leading dimension is a
// multiple of 4, as the library wants for i8. The plan takes the first choice of its heuristic.
#include <algorithm>

#include "core/alignment.h"
#include "core/cuda/cublas.h"
#include "kernels/gemm/scaled.h"
#include "ops/gemm/linear_int8.h"

namespace duet::cuda {
namespace {
constexpr int64_t kMaxWorkspaceBytes = 32 << 20;
constexpr uint32_t kAlignment = 16;  // of all matrices, in bytes
constexpr int64_t kMultiple = 4;

struct Product {
  LtMatmul operation;
  LtLayout w, x, sums;
  cublasLtMatmulHeuristicResult_t choice{};
  bool found = false;

  Product(GpuContext& gpu, int64_t n, int64_t in, int64_t out) {
    DUET_CUBLAS(cublasLtMatmulDescCreate(operation.out(), CUBLAS_COMPUTE_32I, CUDA_R_32I));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    DUET_CUBLAS(
        cublasLtMatmulDescSetAttribute(operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    const auto layout = [](LtLayout& to, cudaDataType_t type, int64_t rows, int64_t cols) {
      DUET_CUBLAS(
          cublasLtMatrixLayoutCreate(to.out(), type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), rows));
    };
    layout(w, CUDA_R_8I, in, out);
    layout(x, CUDA_R_8I, in, n);
    layout(sums, CUDA_R_32I, out, n);
    const LtPreference preference = lt_preference(kMaxWorkspaceBytes, kAlignment);
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(gpu.cublaslt(), operation.get(), w.get(), x.get(), sums.get(),
                                                       sums.get(), preference.get(), 1, &choice, &count);
    found = status == CUBLAS_STATUS_SUCCESS && count == 1;
  }
};

Plan linear_int8_cublaslt(const LinearInt8& p, GpuContext& gpu) {
  using P = LinearInt8;
  if (!cublas_takes(p.dtype)) return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  if (p.n * p.in * p.out == 0) return Unsupported{"cuBLASLt takes no empty matrix"};
  if (std::max({p.n, p.in, p.out}) > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  if (p.n % kMultiple != 0 || p.in % kMultiple != 0 || p.out % kMultiple != 0)
    return Unsupported{"i8 with an extent that is no multiple of 4"};
  Product product(gpu, p.n, p.in, p.out);
  if (!product.found) return Unsupported{"cuBLASLt has no algorithm for this case"};
  WorkspaceLayout workspace;
  const auto sums = workspace.add<int32_t>(p.n * p.out);
  const auto memory = workspace.add_bytes(static_cast<int64_t>(product.choice.workspaceSize));
  const auto handle = gpu.cublaslt();
  auto run = [p, sums, memory, handle, stream = gpu.stream(), product = std::move(product)](Args t) {
    const int32_t one = 1, zero = 0;
    int32_t* const sum = t.workspace(sums);
    DUET_CUBLAS(cublasLtMatmul(handle, product.operation.get(), &one, aligned_data(t[P::w], kAlignment),
                               product.w.get(), aligned_data(t[P::x], kAlignment), product.x.get(), &zero, sum,
                               product.sums.get(), sum, product.sums.get(), &product.choice.algo, t.workspace(memory),
                               product.choice.workspaceSize, stream));
    enqueue_scaled({p.dtype, p.n, p.out, sum, t[P::scale_x].as<const float>(), t[P::scale_w].as<const float>(),
                    t[P::bias].data, t[P::y].data},
                   stream);
  };
  return Plan(std::move(run)).with("heuristic, then scale", std::move(workspace));
}
DUET_REGISTER(linear_int8_cublaslt);
}  // namespace
}  // namespace duet::cuda
