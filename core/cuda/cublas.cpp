// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cublas.h"

#include <cstdio>

#include "core/cuda/versions.h"
#include "core/error.h"

namespace duet::cuda {
namespace {
// The workspace of the handle, in bytes: NVIDIA's recommendation for sm_90. The library's own would grow inside a
// capture.
constexpr int64_t kHandleWorkspace = 32 << 20;
}  // namespace

void check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return count_checked_call();
  DUET_CUDA(cudaGetLastError());  // throws a clearer message where a CUDA error is the cause
  throw Error("{}: {} ({}) at {}:{}", expression, cublasGetStatusString(status), cublasGetStatusName(status), file,
              line);
}

template <>
void log_failure(cublasStatus_t status, const char* expression, const char* file, int line) noexcept {
  if (status != CUBLAS_STATUS_SUCCESS)
    std::fprintf(stderr, "duet: %s: %s at %s:%d\n", expression, cublasGetStatusString(status), file, line);
}

bool cublas_takes(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

cudaDataType_t cublas_dtype(DType t) {
  switch (t) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Error("cuBLAS: dtype {}", name_of(t));
  }
}

cublasComputeType_t cublas_compute(Math m) {
  return m == Math::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

LtPreference lt_preference(int64_t max_workspace_bytes, uint32_t alignment_bytes) {
  LtPreference preference;
  DUET_CUBLAS(cublasLtMatmulPreferenceCreate(preference.out()));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    DUET_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), which, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(max_workspace_bytes));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, alignment_bytes);
  return preference;
}

namespace {
struct Blas {
  Owned<cublasHandle_t, &cublasDestroy> handle;
  DeviceMemory workspace = device_memory(kHandleWorkspace);
};
}  // namespace

cublasContext* GpuContext::cublas() {
  if (!cublas_) {
    auto blas = std::make_shared<Blas>();
    DUET_CUBLAS(cublasCreate(blas->handle.out()));
    const cublasHandle_t handle = blas->handle.get();
    DUET_CUBLAS(cublasSetStream(handle, stream()));
    DUET_CUBLAS(cublasSetWorkspace(handle, blas->workspace.get(), kHandleWorkspace));
    DUET_CUBLAS(cublasSetMathMode(
        handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    cublas_ = std::move(blas);
  }
  return static_cast<Blas*>(cublas_.get())->handle.get();
}

cublasLtContext* GpuContext::cublaslt() {
  using Handle = Owned<cublasLtHandle_t, &cublasLtDestroy>;
  if (!cublaslt_) {
    auto handle = std::make_shared<Handle>();
    DUET_CUBLAS(cublasLtCreate(handle->out()));
    cublaslt_ = std::move(handle);
  }
  return static_cast<Handle*>(cublaslt_.get())->get();
}

std::string cublas_version() {
  int part[3] = {};
  constexpr libraryPropertyType kParts[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int i = 0; i < 3; ++i)
    if (cublasGetProperty(kParts[i], &part[i]) != CUBLAS_STATUS_SUCCESS) return "unavailable";
  return fmt::format("{}.{}.{}", part[0], part[1], part[2]);
}
std::string cublas_header_version() {
  return fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
}

}  // namespace duet::cuda
