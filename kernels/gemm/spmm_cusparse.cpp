// SPDX-License-Identifier: Apache-2.0
// cuSPARSE's product of a matrix in compressed sparse rows with a row-major one. It checks no index before it uses it:
// it serves checked = 0 only. Its preprocessing is left out, which is for one matrix that many runs use: here each run
// may bring another.
#include "core/alignment.h"
#include "core/cuda/cusparse.h"
#include "ops/gemm/spmm.h"

namespace duet::cuda {
namespace {
constexpr auto kAlgorithm = CUSPARSE_SPMM_CSR_ALG2;  // cuSPARSE's advice for row-major matrices

void* data(const Tensor& tensor) { return aligned_data(tensor, 16); }  // for its wide loads

struct Product {
  CusparseHandle handle;
  CusparseMatrix a;
  CusparseDense b, c;
  // Their pointers are null until a run brings them.
  Product(const Spmm& p, cudaStream_t stream) {
    constexpr cudaDataType_t kType = CUDA_R_32F;
    DUET_CUSPARSE(cusparseCreate(handle.out()));
    DUET_CUSPARSE(cusparseSetStream(handle.get(), stream));
    DUET_CUSPARSE(cusparseCreateCsr(a.out(), p.m, p.k, p.nnz, nullptr, nullptr, nullptr, CUSPARSE_INDEX_32I,
                                    CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kType));
    DUET_CUSPARSE(cusparseCreateDnMat(b.out(), p.k, p.n, p.n, nullptr, kType, CUSPARSE_ORDER_ROW));
    DUET_CUSPARSE(cusparseCreateDnMat(c.out(), p.m, p.n, p.n, nullptr, kType, CUSPARSE_ORDER_ROW));
  }
};

Plan spmm_cusparse(const Spmm& p, GpuContext& gpu) {
  if (p.checked) return Unsupported{"checked: cuSPARSE reads out of bounds where an index is not valid"};
  if (p.dtype != DType::f32)
    return Unsupported{std::string("dtype ") + name_of(p.dtype) + ": partial sums are rounded to it (seen on an H100)"};
  if (p.m * p.n * p.k * p.nnz == 0) return Unsupported{"cuSPARSE takes no empty matrix"};
  if (p.n > INT32_MAX) return Unsupported{"more than 2^31 - 1 columns"};
  Product product(p, gpu.stream());
  constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr float kOne = 1, kZero = 0;  // c = 1 a b + 0 c
  size_t bytes = 0;
  DUET_CUSPARSE(cusparseSpMM_bufferSize(product.handle.get(), kAsIs, kAsIs, &kOne, product.a.get(), product.b.get(),
                                        &kZero, product.c.get(), CUDA_R_32F, kAlgorithm, &bytes));
  WorkspaceLayout workspace;
  const auto space = workspace.add_bytes(static_cast<int64_t>(bytes));
  return Plan([product = std::move(product), space](Args t) {
           DUET_CUSPARSE(
               cusparseCsrSetPointers(product.a.get(), t[Spmm::row].data, t[Spmm::col].data, data(t[Spmm::value])));
           DUET_CUSPARSE(cusparseDnMatSetValues(product.b.get(), data(t[Spmm::b])));
           DUET_CUSPARSE(cusparseDnMatSetValues(product.c.get(), data(t[Spmm::c])));
           DUET_CUSPARSE(cusparseSpMM(product.handle.get(), kAsIs, kAsIs, &kOne, product.a.get(), product.b.get(),
                                      &kZero, product.c.get(), CUDA_R_32F, kAlgorithm, t.workspace(space)));
         })
      .with("CSR_ALG2", std::move(workspace))
      .varying();  // by its documentation only CSR_ALG3 gives the same bits in every run
}
DUET_REGISTER(spmm_cusparse);
}  // namespace
}  // namespace duet::cuda
