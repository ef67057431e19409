// SPDX-License-Identifier: Apache-2.0
// cuDNN's classic API: checks, element types, owned descriptors. Its graph API is in cudnn_graph.h.
#pragma once
#include <cudnn.h>

#include <array>
#include <initializer_list>

#include "core/alignment.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/handle.h"
#include "core/registration.h"

namespace duet::cuda {

void check(cudnnStatus_t status, const char* expression, const char* file, int line);  // throws Error
template <>
void log_failure(cudnnStatus_t status, const char* expression, const char* file, int line) noexcept;

cudnnDataType_t cudnn_dtype(DType t);  // throws Error for a type cuDNN lacks

// The tensor's memory, for cuDNN, which wants this alignment for tensor cores and wide loads and is not told any other:
// descriptors of the classic API have none, and it checks no address. Throws Misaligned.
inline constexpr int64_t kCudnnAlignment = 16;  // bytes
inline void* cudnn_data(const Tensor& tensor) { return aligned_data(tensor, kCudnnAlignment); }

// Four dimensions n, c, h, w, each at most 2^31 - 1, dense in NCHW or NHWC order.
class CudnnTensor {
 public:
  CudnnTensor(DType dtype, const std::array<int64_t, 4>& nchw, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW);
  cudnnTensorDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnTensorDescriptor_t, &cudnnDestroyTensorDescriptor> handle_;
};

// k, c, r, s.
class CudnnFilter {
 public:
  CudnnFilter(DType dtype, const std::array<int64_t, 4>& kcrs, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW);
  cudnnFilterDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnFilterDescriptor_t, &cudnnDestroyFilterDescriptor> handle_;
};

struct ConvolutionShape {
  int64_t pad_h, pad_w, stride_h, stride_w, dil_h, dil_w, groups;
};
class CudnnConvolution {
 public:
  CudnnConvolution(const ConvolutionShape& shape, cudnnMathType_t math);  // cross-correlation, f32 sums
  cudnnConvolutionDescriptor_t get() const { return handle_.get(); }
  void set_math(cudnnMathType_t math);

 private:
  Owned<cudnnConvolutionDescriptor_t, &cudnnDestroyConvolutionDescriptor> handle_;
};

class CudnnActivation {
 public:
  explicit CudnnActivation(cudnnActivationMode_t mode);
  cudnnActivationDescriptor_t get() const { return handle_.get(); }

 private:
  Owned<cudnnActivationDescriptor_t, &cudnnDestroyActivationDescriptor> handle_;
};

}  // namespace duet::cuda

#define DUET_CUDNN(expression) ::duet::cuda::check((expression), #expression, __FILE__, __LINE__)
