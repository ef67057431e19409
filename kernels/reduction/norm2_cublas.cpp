// SPDX-License-Identifier: Apache-2.0
// cublasSnrm2, with its result on the device. It is for f32 only: cuBLAS would round the norm of halves to their own
// type.
#include "core/cuda/cublas.h"
#include "ops/reduction/norm2.h"

namespace duet::cuda {
namespace {
// The handle's scalars are on the device during the lifetime of this object; all other code expects them on the host.
class DeviceScalars {
 public:
  explicit DeviceScalars(cublasHandle_t handle) : handle_(handle) {
    DUET_CUBLAS(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE));
  }
  DeviceScalars(const DeviceScalars&) = delete;
  ~DeviceScalars() {
    log_failure(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode", __FILE__, __LINE__);
  }

 private:
  cublasHandle_t handle_;
};

Plan norm2_cublas(const Norm2& p, GpuContext& gpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32: cuBLAS gives the norm in dtype"};
  if (p.n > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  return [n = static_cast<int>(p.n), handle = gpu.cublas()](Args t) {
    const DeviceScalars scalars(handle);
    DUET_CUBLAS(cublasSnrm2(handle, n, t[Norm2::x].as<const float>(), 1, t[Norm2::y].as<float>()));
  };
}
DUET_REGISTER(norm2_cublas);
}  // namespace
}  // namespace duet::cuda
