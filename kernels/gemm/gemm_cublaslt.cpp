// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, whose matrices are column-major: it computes c' = op(b)' op(a)', which is c in the same memory. Sums are in
// f32; TF32 is used only where the case asks for it. Unlike cuBLAS it says which kernel it takes: the plan asks for its
// best candidate and names it. i8 has sums in i32; the library takes it only where both operands have k contiguous
// (trans_b) and every extent is a multiple of 4; f8e4m3 likewise, with n and k multiples of 16.
#include <algorithm>

#include "core/alignment.h"
#include "core/cuda/cublas.h"
#include "core/error.h"
#include "kernels/gemm/float8.h"
#include "ops/gemm/gemm.h"

namespace duet::cuda {
namespace {
constexpr int64_t kMaxWorkspaceBytes = 32 << 20;
constexpr int64_t kInt8Multiple = 4, kFloat8Multiple = 16;  // of extents, as the library wants for i8 and f8e4m3

// Why the library does not take a product of elements of 8 bits.
std::string refused(const Gemm& p, GpuContext& gpu) {
  const std::string type = name_of(p.dtype);
  const int64_t multiple = p.is_int8() ? kInt8Multiple : kFloat8Multiple;
  if (p.is_float8() && gpu.capability() < kFloat8Capability) return type + " before sm_89";
  if (p.trans_a || !p.trans_b) return type + " whose k is not contiguous in a and in b";
  if ((p.is_int8() && p.m % multiple != 0) || p.n % multiple != 0 || p.k % multiple != 0)
    return type + " with " + (p.is_int8() ? "an extent" : "n or k") + " no multiple of " + std::to_string(multiple);
  return {};
}

// Matrices whose rows are not whole packs of 16 bytes need no more than the alignment of such a row, for which the
// library has other kernels.
uint32_t alignment_of(int64_t row_elements, DType dtype) {
  uint32_t bytes = 16;
  while (row_elements * size_of(dtype) % bytes != 0) bytes /= 2;
  return bytes;
}

struct Product {
  LtMatmul operation;
  LtLayout a, b, c;
  cublasLtMatmulHeuristicResult_t choice{};
  bool found = false;

  template <class P>
  Product(const P& p, uint32_t alignment, GpuContext& gpu) {
    const bool int8 = p.is_int8(), float8 = p.is_float8();
    DUET_CUBLAS(cublasLtMatmulDescCreate(operation.out(), int8 ? CUBLAS_COMPUTE_32I : cublas_compute(p.math),
                                         int8 ? CUDA_R_32I : CUDA_R_32F));
    const auto set = [&](cublasLtMatmulDescAttributes_t which, cublasOperation_t value) {
      DUET_CUBLAS(cublasLtMatmulDescSetAttribute(operation.get(), which, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    // Row-major (rows, cols) as column-major (cols, rows), with a batch.
    const cudaDataType_t factors = int8 ? CUDA_R_8I : float8 ? CUDA_R_8F_E4M3 : cublas_dtype(p.dtype);
    const auto layout = [&](LtLayout& to, cudaDataType_t type, int64_t rows, int64_t cols) {
      DUET_CUBLAS(
          cublasLtMatrixLayoutCreate(to.out(), type, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), cols));
      const auto batch = static_cast<int32_t>(p.batch);
      const int64_t stride = rows * cols;
      DUET_CUBLAS(cublasLtMatrixLayoutSetAttribute(to.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
      DUET_CUBLAS(cublasLtMatrixLayoutSetAttribute(to.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                   sizeof stride));
    };
    p.trans_a ? layout(a, factors, p.k, p.m) : layout(a, factors, p.m, p.k);
    p.trans_b ? layout(b, factors, p.n, p.k) : layout(b, factors, p.k, p.n);
    layout(c, int8 ? CUDA_R_32I : cublas_dtype(p.result()), p.m, p.n);

    const LtPreference preference = lt_preference(kMaxWorkspaceBytes, alignment);
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(gpu.cublaslt(), operation.get(), b.get(), a.get(), c.get(),
                                                       c.get(), preference.get(), 1, &choice, &count);
    found = status == CUBLAS_STATUS_SUCCESS && count == 1;
  }

  // "heuristic: algorithm 66, tile 20, stages 36, split k 1", by the numbers of cublasLt.h.
  std::string algorithm() const {
    std::string text = "heuristic";
    const char* between = ": ";
    const auto add = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t which) {
      int32_t value = 0;
      size_t written = 0;
      const auto status = cublasLtMatmulAlgoConfigGetAttribute(&choice.algo, which, &value, sizeof value, &written);
      if (status != CUBLAS_STATUS_SUCCESS) return;
      text += between + std::string(name) + " " + std::to_string(value);
      between = ", ";
    };
    add("algorithm", CUBLASLT_ALGO_CONFIG_ID);
    add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID);
    add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID);
    add("split k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    return text;
  }
};

template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, GpuContext& gpu) {
  const bool bytes = p.is_int8() || p.is_float8();
  if (!bytes && !cublas_takes(p.dtype)) return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  if (p.batch * p.m * p.n * p.k == 0) return Unsupported{"cuBLASLt takes no empty matrix"};
  if (std::max({p.batch, p.m, p.n, p.k}) > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  if constexpr (!kAccumulate)
    if (const std::string why = bytes ? refused(p, gpu) : ""; !why.empty()) return Unsupported{why};
  const uint32_t alignment = std::min({alignment_of(p.trans_a ? p.m : p.k, p.dtype),
                                       alignment_of(p.trans_b ? p.k : p.n, p.dtype), alignment_of(p.n, p.result())});
  Product product(p, alignment, gpu);
  if (!product.found) return Unsupported{"cuBLASLt has no algorithm for this case"};
  WorkspaceLayout workspace;
  const auto memory = workspace.add_bytes(static_cast<int64_t>(product.choice.workspaceSize));
  const std::string algorithm = product.algorithm();
  auto run = [p, alignment, memory, handle = gpu.cublaslt(), stream = gpu.stream(),
              product = std::move(product)](Args t) {
    // Factors have the type of the sums.
    const float beta = kAccumulate ? 1 : 0;
    const int32_t one = 1, zero = 0;
    const void* const alpha = p.is_int8() ? static_cast<const void*>(&one) : &p.alpha;
    const void* const of_c = p.is_int8() ? static_cast<const void*>(&zero) : &beta;
    void* const c = aligned_data(t[Gemm::c], alignment);
    DUET_CUBLAS(cublasLtMatmul(handle, product.operation.get(), alpha, aligned_data(t[Gemm::b], alignment),
                               product.b.get(), aligned_data(t[Gemm::a], alignment), product.a.get(), of_c, c,
                               product.c.get(), c, product.c.get(), &product.choice.algo, t.workspace(memory),
                               product.choice.workspaceSize, stream));
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan gemm_cublaslt(const Gemm& p, GpuContext& gpu) { return plan(p, gpu); }
Plan gemm_acc_cublaslt(const GemmAcc& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gemm_cublaslt);
DUET_REGISTER(gemm_acc_cublaslt);
}  // namespace
}  // namespace duet::cuda
