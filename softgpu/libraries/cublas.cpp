// SPDX-License-Identifier: Apache-2.0
// Stands in for the functions of cuBLAS that need a device, as far as Duet calls them. Everything else, such as the
// texts of errors, is cuBLAS's own. cublaslt.cpp has cuBLASLt.
//
// Rules that are kept: scalars are read where the pointer mode says; cublasSetStream takes the workspace away that the
// program has set; without one, a product during a capture is refused, since the library would have to allocate.
#include <cublas_v2.h>

#include <memory>
#include <set>

#include "softgpu/libraries/product.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

struct Handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};
std::set<Handle*> handles;

// Runs `body` with the handle, which must exist.
template <class F>
cublasStatus_t with(cublasHandle_t handle, F&& body) {
  return library_call(CUBLAS_STATUS_EXECUTION_FAILED, [&]() -> cublasStatus_t {
    auto* h = reinterpret_cast<Handle*>(handle);
    if (!handles.count(h)) return refuse_call(CUBLAS_STATUS_NOT_INITIALIZED, "cuBLAS: no such handle");
    return body(*h);
  });
}

bool captures(cudaStream_t stream) { return device().stream(stream).capture != nullptr; }

cublasStatus_t product(Handle& h, Product p, const void* alpha, const void* beta, cublasComputeType_t compute) {
  if (h.pointer_mode != CUBLAS_POINTER_MODE_HOST)
    return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, p.call + ": factors on the device");
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)
    return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, p.call + ": another precision than f32 and TF32");
  if (!alpha || !beta) return refuse_call(CUBLAS_STATUS_INVALID_VALUE, p.call + ": a factor is null");
  p.alpha = *static_cast<const float*>(alpha);
  p.beta = *static_cast<const float*>(beta);
  p.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
  p.c = p.d;
  if (const std::string why = p.invalid(); !why.empty()) return refuse_call(CUBLAS_STATUS_INVALID_VALUE, why);
  if (p.a.type == CUDA_R_8I) return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, p.call + ": factors of i8");
  if (p.a.type != p.b.type) return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, p.call + ": factors of two types");
  if (captures(h.stream) && !h.workspace)
    return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, p.call + " during a capture, without a workspace of the program");
  enqueue(h.stream, [p, workspace = h.workspace, bytes = h.workspace_bytes] {
    spoil(workspace, bytes, p.call + ", workspace");
    p.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return library_call(CUBLAS_STATUS_NOT_INITIALIZED, [&]() -> cublasStatus_t {
    if (breaks_capture()) return refuse_call(CUBLAS_STATUS_NOT_INITIALIZED, "cublasCreate during a capture");
    auto* h = new Handle;
    handles.insert(h);
    *handle = reinterpret_cast<cublasHandle_t>(h);
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  return with(handle, [](Handle& h) {
    device().run_everything();
    handles.erase(&h);
    delete &h;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  return with(handle, [&](Handle& h) {
    if (!is_stream(stream)) return refuse_call(CUBLAS_STATUS_INVALID_VALUE, "cublasSetStream: no such stream");
    h.stream = stream;
    h.workspace = nullptr;
    h.workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  return with(handle, [&](Handle& h) {
    constexpr uintptr_t kAlignment = 256;
    if (reinterpret_cast<uintptr_t>(workspace) % kAlignment != 0)
      return refuse_call(CUBLAS_STATUS_INVALID_VALUE, "cublasSetWorkspace: not aligned to 256 bytes");
    h.workspace = workspace;
    h.workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  return with(handle, [](Handle&) { return CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  return with(handle, [&](Handle& h) {
    h.pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType type_a, int lda,
                                          long long int stride_a, const void* b, cudaDataType type_b, int ldb,
                                          long long int stride_b, const void* beta, void* c, cudaDataType type_c,
                                          int ldc, long long int stride_c, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  return with(handle, [&](Handle& h) {
    Product p;
    p.call = "cublasGemmStridedBatchedEx";
    p.transpose_a = op_a != CUBLAS_OP_N;
    p.transpose_b = op_b != CUBLAS_OP_N;
    p.batches = batches;
    p.a = {a, type_a, p.transpose_a ? k : m, p.transpose_a ? m : k, lda, stride_a};
    p.b = {b, type_b, p.transpose_b ? n : k, p.transpose_b ? k : n, ldb, stride_b};
    p.d = {c, type_c, m, n, ldc, stride_c};
    return product(h, p, alpha, beta, compute);
  });
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType type_a, int lda, const void* b,
                            cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                                    type_c, ldc, 0, 1, compute, algorithm);
}

cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const float* alpha,
                           const float* a, int lda, const float* x, int step_x, const float* beta, float* y,
                           int step_y) {
  return with(handle, [&](Handle& h) {
    if (step_x != 1 || step_y != 1) return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, "cublasSgemv: vectors with steps");
    Product p;
    p.call = "cublasSgemv";
    p.transpose_a = op != CUBLAS_OP_N;
    p.a = {a, CUDA_R_32F, m, n, lda, 0};
    p.b = {x, CUDA_R_32F, p.k(), 1, p.k(), 0};
    p.d = {y, CUDA_R_32F, p.m(), 1, p.m(), 0};
    return product(h, p, alpha, beta, CUBLAS_COMPUTE_32F);
  });
}

cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                           const float* alpha, const float* a, int lda, const float* beta, const float* b, int ldb,
                           float* c, int ldc) {
  return with(handle, [&](Handle& h) {
    if (h.pointer_mode != CUBLAS_POINTER_MODE_HOST)
      return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, "cublasSgeam: factors on the device");
    const bool across_a = op_a != CUBLAS_OP_N, across_b = op_b != CUBLAS_OP_N;
    if (m < 0 || n < 0 || lda < std::max(1, across_a ? n : m) || ldb < std::max(1, across_b ? n : m) ||
        ldc < std::max(1, m))
      return refuse_call(CUBLAS_STATUS_INVALID_VALUE, "cublasSgeam: a leading dimension is too small");
    if ((c == a && (across_a || lda != ldc)) || (c == b && (across_b || ldb != ldc)))
      return refuse_call(CUBLAS_STATUS_INVALID_VALUE, "cublasSgeam: in place, but not element by element");
    enqueue(h.stream, [=, alpha = *alpha, beta = *beta] {
      const Elements from_a(a, Element::f32, "cublasSgeam, a"), from_b(b, Element::f32, "cublasSgeam, b");
      Elements to(c, Element::f32, "cublasSgeam, c");
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;  // a matrix whose factor is 0 is not read
          if (alpha != 0) sum += static_cast<double>(alpha) * from_a.load(across_a ? j + i * lda : i + j * lda);
          if (beta != 0) sum += static_cast<double>(beta) * from_b.load(across_b ? j + i * ldb : i + j * ldb);
          to.store(i + j * ldc, sum);
        }
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasAxpyEx(cublasHandle_t handle, int n, const void* alpha, cudaDataType alpha_type, const void* x,
                            cudaDataType x_type, int step_x, void* y, cudaDataType y_type, int step_y,
                            cudaDataType compute) {
  return with(handle, [&](Handle& h) {
    if (h.pointer_mode != CUBLAS_POINTER_MODE_HOST || alpha_type != CUDA_R_32F || compute != CUDA_R_32F ||
        x_type != y_type)
      return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, "cublasAxpyEx: types, or a factor on the device");
    const Element type = x_type == CUDA_R_32F ? Element::f32 : x_type == CUDA_R_16BF ? Element::bf16 : Element::f16;
    enqueue(h.stream, [=, alpha = *static_cast<const float*>(alpha)] {
      const Elements from(x, type, "cublasAxpyEx, x");
      Elements to(y, type, "cublasAxpyEx, y");
      for (int64_t i = 0; i < n; ++i)
        to.store(i * step_y, static_cast<double>(alpha) * from.load(i * step_x) + to.load(i * step_y));
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSnrm2(cublasHandle_t handle, int n, const float* x, int step, float* result) {
  return with(handle, [&](Handle& h) {
    if (h.pointer_mode != CUBLAS_POINTER_MODE_DEVICE)
      return refuse_call(CUBLAS_STATUS_NOT_SUPPORTED, "cublasSnrm2: a result on the host");
    enqueue(h.stream, [=] {
      const Elements from(x, Element::f32, "cublasSnrm2, x");
      Elements to(result, Element::f32, "cublasSnrm2, result");
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double value = from.load(i * step);
        sum += value * value;
      }
      to.store(0, std::sqrt(sum));
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
