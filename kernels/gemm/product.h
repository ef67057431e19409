// SPDX-License-Identifier: Apache-2.0
// The tuned matrix products, for whoever needs one: gemm and linear. All matrices row-major and dense.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// c = act(alpha * op(a) op(b) + bias), per matrix of the batch. a: (batch, m, k), or (batch, k, m) with trans_a;
// b: (batch, k, n), or (batch, n, k) with trans_b; c: (batch, m, n). bias: (n) or null, for all rows. act is relu, or, where
// pre is not null, gelu, and pre: (batch, m, n) takes what it is applied to.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false, relu = false;
  float alpha = 1;
};

// One precision each: product_f32.cu, product_half.cu. multiprocessors: of the device, to choose the tile.
void enqueue_product_f32(const Product& p, const float* a, const float* b, const float* bias, float* c, float* pre,
                         int multiprocessors, cudaStream_t stream);
template <class T>  // __nv_bfloat16, __half
void enqueue_product_half(const Product& p, const T* a, const T* b, const T* bias, T* c, T* pre, cudaStream_t stream);

// Enqueues it. Nothing is written for an empty c; k = 0 gives act(bias).
template <class T>
void enqueue_product(const Product& p, const T* a, const T* b, const T* bias, T* c, GpuContext& gpu, T* pre = nullptr) {
  if constexpr (sizeof(T) == 4)
    enqueue_product_f32(p, a, b, bias, c, pre, gpu.multiprocessors(), gpu.stream());
  else
    enqueue_product_half<T>(p, a, b, bias, c, pre, gpu.stream());
}

// Blocks of a grid of tiles over (m, n) and batch, and which tile a block has. Blocks that run at the same time share
// rows of a and columns of b: tiles are taken in bands of kBand rows of tiles, down each band's columns.
struct Tiles {
  int64_t down, across;
  static constexpr int64_t kBand = 8;
  struct At {
    int64_t batch, row, col;
  };
  __host__ __device__ At at(int64_t block) const {
    const int64_t per_matrix = down * across, batch = block / per_matrix, index = block % per_matrix;
    const int64_t band = index / (kBand * across), first = band * kBand;
    const int64_t height = down - first < kBand ? down - first : kBand, within = index - first * across;
    return {batch, first + within % height, within / height};
  }
};

}  // namespace duet::DUET_DEVICE
