// SPDX-License-Identifier: Apache-2.0
// What the stand-ins for cuDNN's classic API have in common (cudnn.cpp, cudnn_convolution.cpp). Descriptors are cuDNN's
// own, which checks what they are given; the stand-ins read them.
#pragma once
#include <cudnn.h>

#include "softgpu/libraries/elements.h"

namespace duet::softgpu {

struct CudnnHandle {
  cudaStream_t stream = nullptr;
};

cudnnStatus_t refuse_cudnn(const std::string& why);  // CUDNN_STATUS_BAD_PARAM

// Runs `body` with the handle, which must exist.
cudnnStatus_t with_cudnn(cudnnHandle_t handle, const std::function<cudnnStatus_t(CudnnHandle&)>& body);

inline Element element_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Element::f32;
    case CUDNN_DATA_BFLOAT16:
      return Element::bf16;
    case CUDNN_DATA_HALF:
      return Element::f16;
    case CUDNN_DATA_INT32:
      return Element::i32;
    default:
      throw Error("cuDNN's stand-in: data type {}", static_cast<int>(type));
  }
}

// Four dimensions and their strides.
struct Shape4 {
  Element type = Element::f32;
  int64_t n = 0, c = 0, h = 0, w = 0, sn = 0, sc = 0, sh = 0, sw = 0;
  int64_t at(int64_t i, int64_t j, int64_t k, int64_t l) const { return i * sn + j * sc + k * sh + l * sw; }
  bool same(const Shape4& other) const { return n == other.n && c == other.c && h == other.h && w == other.w; }
};
Shape4 shape_of(cudnnTensorDescriptor_t descriptor);  // throws Error
Shape4 shape_of(cudnnFilterDescriptor_t descriptor);

int64_t convolution_searches();  // of this process so far, for tests

// f(n, c, h, w) for every element.
template <class F>
void for_each(const Shape4& s, F&& f) {
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t j = 0; j < s.c; ++j)
      for (int64_t k = 0; k < s.h; ++k)
        for (int64_t l = 0; l < s.w; ++l) f(i, j, k, l);
}

// result = alpha value + beta before, as cuDNN blends; with beta 0, what was there is not read.
struct Blend {
  double alpha = 1, beta = 0;
  Blend(const void* a, const void* b) : alpha(*static_cast<const float*>(a)), beta(*static_cast<const float*>(b)) {}
  void store(Elements& to, int64_t index, double value) const {
    to.store(index, alpha * value + (beta != 0 ? beta * to.load(index) : 0));
  }
};

}  // namespace duet::softgpu
