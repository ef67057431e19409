// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cudnn.h"

#include <cstdio>

#include "core/cuda/versions.h"
#include "core/error.h"

namespace duet::cuda {

void check(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return count_checked_call();
  const auto category = CUDNN_STATUS_CATEGORY(status);
  if (category != CUDNN_STATUS_BAD_PARAM && category != CUDNN_STATUS_NOT_SUPPORTED)
    DUET_CUDA(cudaGetLastError());  // throws a clearer message where a CUDA error is the cause
  throw Error("{}: {} at {}:{}", expression, cudnnGetErrorString(status), file, line);
}

template <>
void log_failure(cudnnStatus_t status, const char* expression, const char* file, int line) noexcept {
  if (status != CUDNN_STATUS_SUCCESS)
    std::fprintf(stderr, "duet: %s: %s at %s:%d\n", expression, cudnnGetErrorString(status), file, line);
}

cudnnDataType_t cudnn_dtype(DType t) {
  switch (t) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::i32:
      return CUDNN_DATA_INT32;
    case DType::i8:
      return CUDNN_DATA_INT8;
    case DType::u8:
      return CUDNN_DATA_UINT8;
    case DType::f8e4m3:
      return CUDNN_DATA_FP8_E4M3;
  }
  throw Error("cuDNN: no such dtype");
}

namespace {
int to_int(int64_t v) {
  if (v < 0 || v > INT32_MAX) throw Error("cuDNN: a dimension of {}; the limit is {}", v, INT32_MAX);
  return static_cast<int>(v);
}
}  // namespace

CudnnTensor::CudnnTensor(DType dtype, const std::array<int64_t, 4>& d, cudnnTensorFormat_t format) {
  DUET_CUDNN(cudnnCreateTensorDescriptor(handle_.out()));
  DUET_CUDNN(cudnnSetTensor4dDescriptor(get(), format, cudnn_dtype(dtype), to_int(d[0]), to_int(d[1]), to_int(d[2]),
                                        to_int(d[3])));
}

CudnnFilter::CudnnFilter(DType dtype, const std::array<int64_t, 4>& d, cudnnTensorFormat_t format) {
  DUET_CUDNN(cudnnCreateFilterDescriptor(handle_.out()));
  DUET_CUDNN(cudnnSetFilter4dDescriptor(get(), cudnn_dtype(dtype), format, to_int(d[0]), to_int(d[1]), to_int(d[2]),
                                        to_int(d[3])));
}

CudnnConvolution::CudnnConvolution(const ConvolutionShape& s, cudnnMathType_t math) {
  DUET_CUDNN(cudnnCreateConvolutionDescriptor(handle_.out()));
  DUET_CUDNN(cudnnSetConvolution2dDescriptor(get(), to_int(s.pad_h), to_int(s.pad_w), to_int(s.stride_h),
                                             to_int(s.stride_w), to_int(s.dil_h), to_int(s.dil_w),
                                             CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  DUET_CUDNN(cudnnSetConvolutionGroupCount(get(), to_int(s.groups)));
  set_math(math);
}

void CudnnConvolution::set_math(cudnnMathType_t math) { DUET_CUDNN(cudnnSetConvolutionMathType(get(), math)); }

CudnnActivation::CudnnActivation(cudnnActivationMode_t mode) {
  DUET_CUDNN(cudnnCreateActivationDescriptor(handle_.out()));
  DUET_CUDNN(cudnnSetActivationDescriptor(get(), mode, CUDNN_PROPAGATE_NAN, 0));
}

cudnnContext* GpuContext::cudnn() {
  using Handle = Owned<cudnnHandle_t, &cudnnDestroy>;
  if (!cudnn_) {
    auto handle = std::make_shared<Handle>();
    DUET_CUDNN(cudnnCreate(handle->out()));
    DUET_CUDNN(cudnnSetStream(handle->get(), stream()));
    cudnn_ = std::move(handle);
  }
  return static_cast<Handle*>(cudnn_.get())->get();
}

namespace {
std::string dotted(size_t version) {  // 91900: 9.19.0
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}
}  // namespace
std::string cudnn_version() { return dotted(cudnnGetVersion()); }
std::string cudnn_header_version() { return dotted(CUDNN_VERSION); }

}  // namespace duet::cuda
