// SPDX-License-Identifier: Apache-2.0
// cuDNN's activations as plans, for sigmoid_cudnn.cpp and tanh_cudnn.cpp. The tensor is one image of one channel and
// `n` pixels.
#pragma once
#include <string>

#include "core/cuda/cudnn.h"

namespace duet::cuda {

inline std::string activation_unsupported_reason(int64_t n, DType dtype) {
  if (n == 0) return "cuDNN takes no empty tensor";
  if (n > INT32_MAX) return "a dimension over 2^31 - 1";
  return dtype == DType::f64 ? "dtype f64" : "";
}

inline Plan activation_forward(int64_t n, DType dtype, cudnnActivationMode_t mode, Slot x, Slot y, GpuContext& gpu) {
  if (const std::string why = activation_unsupported_reason(n, dtype); !why.empty()) return Unsupported{why};
  return [handle = gpu.cudnn(), act = CudnnActivation(mode), shape = CudnnTensor(dtype, {1, 1, 1, n}), x, y](Args t) {
    const float one = 1, zero = 0;
    DUET_CUDNN(cudnnActivationForward(handle, act.get(), &one, shape.get(), cudnn_data(t[x]), &zero, shape.get(),
                                      cudnn_data(t[y])));
  };
}

// For activations whose derivative is a function of y: cuDNN takes x as a parameter but does not read it.
inline Plan activation_backward(int64_t n, DType dtype, cudnnActivationMode_t mode, Slot y, Slot dy, Slot dx,
                                GpuContext& gpu) {
  if (const std::string why = activation_unsupported_reason(n, dtype); !why.empty()) return Unsupported{why};
  return
      [handle = gpu.cudnn(), act = CudnnActivation(mode), shape = CudnnTensor(dtype, {1, 1, 1, n}), y, dy, dx](Args t) {
        const float one = 1, zero = 0;
        DUET_CUDNN(cudnnActivationBackward(handle, act.get(), &one, shape.get(), cudnn_data(t[y]), shape.get(),
                                           cudnn_data(t[dy]), shape.get(), cudnn_data(t[y]), &zero, shape.get(),
                                           cudnn_data(t[dx])));
      };
}

}  // namespace duet::cuda
