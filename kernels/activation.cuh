// SPDX-License-Identifier: Apache-2.0
// Sigmoid and gelu in f32, with their derivatives, for every kernel that applies them (elementwise, gemm, loss,
// recurrent).
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// gelu_tanh(x) = x / 2 (1 + tanh(z / 2)) with z = x (kGeluLinear + kGeluCubic x^2).
constexpr float kGeluLinear = 1.5957691216f;    // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.0713548162726f;  // 0.044715 * 2 sqrt(2 / pi)
constexpr float kInvSqrt2 = 0.70710678118f, kInvSqrt2Pi = 0.39894228040f;

// Computed as x / (1 + exp(-z)), which is equal and has no cancellation.
__device__ __forceinline__ float gelu_tanh(float x) { return x / (1 + expf(-x * (kGeluLinear + kGeluCubic * x * x))); }
// s + x s (1 - s) z' with s = sigmoid(z). 1 - s is computed as sigmoid(-z), which has no cancellation. The slope is 0
// or 1 beyond +-kGeluFlat, where z' would overflow.
__device__ __forceinline__ float gelu_tanh_slope(float x) {
  constexpr float kGeluFlat = 20;
  if (fabsf(x) > kGeluFlat) x = copysignf(kGeluFlat, x);  // not for NaN
  const float z = x * (kGeluLinear + kGeluCubic * x * x), slope_z = kGeluLinear + 3 * kGeluCubic * x * x;
  const float s = sigmoid(z), one_minus_s = sigmoid(-z);
  return s * (1 + x * slope_z * one_minus_s);
}
__device__ __forceinline__ float gelu_erf(float x) { return 0.5f * x * (1 + erff(x * kInvSqrt2)); }
__device__ __forceinline__ float gelu_erf_slope(float x) {
  return 0.5f * (1 + erff(x * kInvSqrt2)) + x * kInvSqrt2Pi * expf(-0.5f * x * x);
}

}  // namespace duet::DUET_DEVICE
