// SPDX-License-Identifier: Apache-2.0
// The tuned matrix products, called by gemm, the linear layers, attention (materialised) and the recurrent layers. All
// matrices are row-major and dense. Start reading here, then product_f32.cu with tile_f32.cuh, product_half.cuh with
// tile_half.cuh, or product_warpgroup.cuh with tile_warpgroup.cuh.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// c = act(alpha * op(a) op(b) + bias), for each matrix of the batch. a: (batch, m, k), or (batch, k, m) with trans_a;
// b: (batch, k, n), or (batch, n, k) with trans_b; c: (batch, m, n). bias: (n), added to all rows, or null. act is relu
// with `relu`; it is gelu where pre: (batch, m, n) is not null, and pre receives the argument of gelu. With
// `accumulate`, alpha * op(a) op(b) is added to c instead, and there is neither bias nor act.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false, relu = false, accumulate = false;
  float alpha = 1;
};

// For f32 (product_f32.cu). multiprocessors: of the device; the tile is chosen by it.
void enqueue_product_f32(const Product& p, const float* a, const float* b, const float* bias, float* c, float* pre,
                         int multiprocessors, cudaStream_t stream);
// For __nv_bfloat16 (product_bf16.cu) and __half (product_f16.cu). The device chooses kernel and tile.
struct HalfDevice {
  int capability, multiprocessors;
  cudaStream_t stream;
};
template <class T>
void enqueue_product_half(const Product& p, const T* a, const T* b, const T* bias, T* c, T* pre, const HalfDevice& on);

// Enqueues the product of type T. Nothing is written for an empty c; k = 0 gives act(bias), or leaves c.
template <class T>
void enqueue_product(const Product& p, const T* a, const T* b, const T* bias, T* c, GpuContext& gpu, T* pre = nullptr) {
  if constexpr (sizeof(T) == 4)
    enqueue_product_f32(p, a, b, bias, c, pre, gpu.multiprocessors(), gpu.stream());
  else
    enqueue_product_half<T>(p, a, b, bias, c, pre, {gpu.capability(), gpu.multiprocessors(), gpu.stream()});
}

// c = gelu'(h) (a b), and part[q] = the sums of the columns of rows q kPartRows to (q + 1) kPartRows of c, before they
// are rounded. a: (m, k), b: (k, n), c, h: (m, n); part: (ceil(m / kPartRows), n).
struct SlopeProduct {
  int64_t m = 0, n = 0, k = 0;
};
constexpr int64_t kPartRows = 64;
void enqueue_slope_product_f32(const SlopeProduct& p, const float* a, const float* b, const float* h, float* c,
                               float* part, int multiprocessors, cudaStream_t stream);
template <class T>
void enqueue_slope_product_half(const SlopeProduct& p, const T* a, const T* b, const T* h, T* c, float* part,
                                cudaStream_t stream);
template <class T>
void enqueue_slope_product(const SlopeProduct& p, const T* a, const T* b, const T* h, T* c, float* part,
                           GpuContext& gpu) {
  if constexpr (sizeof(T) == 4)
    enqueue_slope_product_f32(p, a, b, h, c, part, gpu.multiprocessors(), gpu.stream());
  else
    enqueue_slope_product_half<T>(p, a, b, h, c, part, gpu.stream());
}

// The tiles of (m, n) and batch, and the order in which blocks take them. Blocks that run at the same time should share
// rows of a and columns of b, which are then read from L2: the tiles are divided into bands of kBand rows of tiles, and
// each band is taken column by column.
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
