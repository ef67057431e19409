// SPDX-License-Identifier: Apache-2.0
// Smooth activations in f32, for kernels that apply them.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

constexpr float kGeluLinear = 1.5957691216f, kGeluCubic = 0.0713548162726f;  // 2 sqrt(2 / pi), and 0.044715 of it
constexpr float kInvSqrt2 = 0.70710678118f, kInvSqrt2Pi = 0.39894228040f;

// x / 2 (1 + tanh(z / 2)) is x / (1 + exp(-z)), with nothing to cancel.
__device__ __forceinline__ float gelu_tanh(float x) { return x / (1 + expf(-x * (kGeluLinear + kGeluCubic * x * x))); }
// s + x s (1 - s) z'. 1 - s is the sigmoid of -z: it cancels nothing either.
__device__ __forceinline__ float gelu_tanh_slope(float x) {
  const float z = x * (kGeluLinear + kGeluCubic * x * x), rise = kGeluLinear + 3 * kGeluCubic * x * x;
  const float s = sigmoid(z), other = sigmoid(-z);
  return s * (1 + x * rise * other);
}
__device__ __forceinline__ float gelu_erf(float x) { return 0.5f * x * (1 + erff(x * kInvSqrt2)); }
__device__ __forceinline__ float gelu_erf_slope(float x) {
  return 0.5f * (1 + erff(x * kInvSqrt2)) + x * kInvSqrt2Pi * expf(-0.5f * x * x);
}

}  // namespace duet::DUET_DEVICE
