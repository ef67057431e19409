// SPDX-License-Identifier: Apache-2.0
// cuBLAS and cuBLASLt: checks, element types, descriptors.
#pragma once
#include <cublasLt.h>
#include <cublas_v2.h>

#include "core/cuda/gpu_context.h"
#include "core/cuda/handle.h"
#include "core/registration.h"

namespace duet::cuda {

void check(cublasStatus_t status, const char* expression, const char* file, int line);  // throws Error
template <>
void log_failure(cublasStatus_t status, const char* expression, const char* file, int line) noexcept;

bool cublas_takes(DType t);                  // f32, bf16, f16
cudaDataType_t cublas_dtype(DType t);        // of those
cublasComputeType_t cublas_compute(Math m);  // sums in f32; factors in tf32 only for Math::tf32

// Row-major matrices with `cols` as leading dimension are column-major matrices of swapped shape.
using LtMatmul = Owned<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using LtLayout = Owned<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using LtPreference = Owned<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;
// What a heuristic may choose: so much workspace, matrices with this alignment, and where k is split, partial sums in
// the compute type. By default cuBLASLt may round them to the output's type, which the contracts of gemm and linear do
// not allow for.
LtPreference lt_preference(int64_t max_workspace_bytes, uint32_t alignment_bytes);

}  // namespace duet::cuda

#define DUET_CUBLAS(expression) ::duet::cuda::check((expression), #expression, __FILE__, __LINE__)
