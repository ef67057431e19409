// SPDX-License-Identifier: Apache-2.0
// Flash attention (Dao et al., arXiv:2205.14135) on raw pointers: its parameters and its launches by precision. Called
// by attention_tuned.cu; attention_materialised.cu uses the parameters and the row dots. Start reading at flash_f32.cu.
#pragma once
#include "ops/attention/attention.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

struct Flash {
  int64_t heads, group, Tq, Tk, D;  // heads: B H, of q; group: heads of q that share one head of k and v
  bool causal;
  float scale;
  explicit Flash(const AttentionShape& p)
      : heads(p.B * p.H),
        group(p.group()),
        Tq(p.Tq),
        Tk(p.Tk),
        D(p.D),
        causal(p.causal),
        scale(static_cast<float>(p.factor())) {}
  // Whether key j takes part in the softmax of query i: both exist and the mask allows it.
  __host__ __device__ bool sees(int64_t i, int64_t j) const { return i < Tq && j < Tk && !(causal && j > i); }
};

inline constexpr int64_t kMaxFlashDepth = 128;  // features of a head: limited by shared memory and registers of a tile

// q, dq, y, dy: (heads, Tq, D); k, v, dk, dv: (heads / group, Tk, D); lse, delta: (heads, Tq). delta: the sums of dy y
// over D.
template <class T>
struct FlashTensors {
  const T *q, *k, *v;
  T* y;
  float* lse;
};
template <class T>
struct FlashGradients {
  const T *q, *k, *v, *y, *dy;
  const float* lse;
  float* delta;
  T *dq, *dk, *dv;
};

// flash_f32.cu. The shared memory of a block, forward and backward, may exceed that of the device.
int64_t flash_shared_bytes(int64_t D);
int64_t flash_backward_shared_bytes(int64_t D);
void enqueue_flash(const Flash& p, const FlashTensors<float>& t, cudaStream_t stream);
void enqueue_flash_backward(const Flash& p, const FlashGradients<float>& t, cudaStream_t stream);
// flash_half.cu, for __nv_bfloat16 and __half
template <class T>
void enqueue_flash(const Flash& p, const FlashTensors<T>& t, cudaStream_t stream);
template <class T>
void enqueue_flash_backward(const Flash& p, const FlashGradients<T>& t, cudaStream_t stream);

// attention_tuned.cu. delta[row] = sum_c dy[row,c] y[row,c].
template <class T>
void enqueue_row_dots(int64_t rows, int64_t D, const T* y, const T* dy, float* delta, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
