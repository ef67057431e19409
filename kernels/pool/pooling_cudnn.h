// SPDX-License-Identifier: Apache-2.0
// cuDNN's descriptors of pooling and the cases that it supports, for avg_pool2d_cudnn.cpp and max_pool2d_cudnn.cpp.
#pragma once
#include "core/cuda/cudnn.h"
#include "ops/pool/pool2d.h"

namespace duet::cuda {

class CudnnPooling {
 public:
  CudnnPooling(const Pool2d& p, cudnnPoolingMode_t mode) {
    DUET_CUDNN(cudnnCreatePoolingDescriptor(handle_.out()));
    DUET_CUDNN(cudnnSetPooling2dDescriptor(handle_.get(), mode, CUDNN_NOT_PROPAGATE_NAN, static_cast<int>(p.r),
                                           static_cast<int>(p.s), static_cast<int>(p.pad_h), static_cast<int>(p.pad_w),
                                           static_cast<int>(p.stride_h), static_cast<int>(p.stride_w)));
  }
  cudnnPoolingDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnPoolingDescriptor_t, &cudnnDestroyPoolingDescriptor> handle_;
};

inline cudnnTensorFormat_t pooling_format(const Pool2d& p) {
  return p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}
inline CudnnTensor pooling_x(const Pool2d& p) { return CudnnTensor(p.dtype, {p.n, p.c, p.h, p.w}, pooling_format(p)); }
inline CudnnTensor pooling_y(const Pool2d& p) {
  return CudnnTensor(p.dtype, {p.n, p.c, p.ho(), p.wo()}, pooling_format(p));
}

inline std::string pooling_unsupported_reason(const Pool2d& p) {
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return std::string("dtype ") + name_of(p.dtype);
  if (p.dil_h != 1 || p.dil_w != 1) return "cuDNN's windows have no dilation";
  if (p.x_elements() == 0 || p.y_elements() == 0) return "cuDNN takes no empty tensor";
  for (const int64_t d : {p.n, p.c})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return "";
}

}  // namespace duet::cuda
