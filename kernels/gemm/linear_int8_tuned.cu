// SPDX-License-Identifier: Apache-2.0
// A block computes one 128 x 128 tile of y on the tensor cores (tile_int8.cuh: i8 products, sums in i32), scales it and
// adds the bias. Where rows are not aligned to 16 bytes, panels are loaded byte by byte.
#include "kernels/gemm/product.h"
#include "kernels/gemm/scaled.h"
#include "kernels/gemm/tile_int8.cuh"
#include "ops/gemm/linear_int8.h"

namespace duet::DUET_DEVICE {
namespace {

// By one scale after the other: the product of the two may leave f32's range where the result does not.
__device__ __forceinline__ float scaled(int sum, float of_x, float of_w, float bias) {
  return float(sum) * of_x * of_w + bias;
}

// One block of 128 threads per tile, in the order of Tiles. 64 KiB of dynamic shared memory. x: (n, in), w: (out, in),
// y: (n, out). pairs: rows of y allow accesses of two elements.
template <class T>
__global__ void __launch_bounds__(TileInt8::kThreads, 2)
    linear_int8_kernel(const int8_t* x, const int8_t* w, const float* scale_x, const float* scale_w, const T* bias,
                       T* y, Tiles tiles, int64_t n, int64_t in, int64_t out, bool aligned, bool pairs) {
  DUET_DYN_SHARED(int8_t, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * TileInt8::kTile, o0 = at.col * TileInt8::kTile;

  // Multiply.
  TileInt8::Sums sums = {};
  TileInt8::multiply((in + TileInt8::kDepth - 1) / TileInt8::kDepth,
                     [&](int8_t* panel, int64_t step) { TileInt8::load(panel, x, i0, n, in, step, aligned); },
                     [&](int8_t* panel, int64_t step) { TileInt8::load(panel, w, o0, out, in, step, aligned); }, shared,
                     sums);

  // Scale, add the bias, write back.
  const float of_x = *scale_x;
  for_my_pairs(sums, [&](int i, int j, int first, int second) {
    const int64_t row = i0 + i, col = o0 + j;
    if (row >= n || col >= out) return;
    T* to = y + row * out + col;
    const T v = T(scaled(first, of_x, scale_w[col], float(bias[col])));
    const bool two = col + 1 < out;
    const T u = two ? T(scaled(second, of_x, scale_w[col + 1], float(bias[col + 1]))) : v;
    if (pairs) {
      store_pack(to, Pack<T, 2>{{v, u}});
    } else {
      to[0] = v;
      if (two) to[1] = u;
    }
  });
}

// One thread per element. sums: (n, out).
template <class T>
__global__ void __launch_bounds__(kMapBlock) scale_kernel(const int* sums, const float* scale_x, const float* scale_w,
                                                          const T* bias, T* y, int64_t elements, int64_t out) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i >= elements) return;
  const int64_t o = i % out;
  y[i] = T(scaled(sums[i], *scale_x, scale_w[o], float(bias[o])));
}

Plan linear_int8_tuned(const LinearInt8& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Tiles tiles{ceil_div(p.n, TileInt8::kTile), ceil_div(p.out, TileInt8::kTile)};
    const Grid grid{.blocks = tiles.down * tiles.across,
                    .threads = TileInt8::kThreads,
                    .shared_bytes = TileInt8::kSharedBytes,
                    .stream = gpu.stream()};
    return Plan([p, tiles, grid](Args t) {
             using P = LinearInt8;
             const auto *x = t[P::x].as<const int8_t>(), *w = t[P::w].as<const int8_t>();
             T* y = t[P::y].as<T>();
             const bool aligned = p.in % TileInt8::kChunk == 0 && aligned16(x, w);
             const bool pairs = p.out % 2 == 0 && reinterpret_cast<uintptr_t>(y) % (2 * sizeof(T)) == 0;
             launch(linear_int8_kernel<T>, grid, x, w, t[P::scale_x].as<const float>(), t[P::scale_w].as<const float>(),
                    t[P::bias].as<const T>(), y, tiles, p.n, p.in, p.out, aligned, pairs);
           })
        .with("mma.m16n8k32");
  });
}
DUET_REGISTER(linear_int8_tuned);
}  // namespace

void enqueue_scaled(const ScaledSums& s, cudaStream_t stream) {
  for_float(s.dtype, [&]<class T>() -> Plan {
    launch(scale_kernel<T>, map_grid(s.n * s.out, 1, stream), s.sums, s.scale_x, s.scale_w,
           static_cast<const T*>(s.bias), static_cast<T*>(s.y), s.n * s.out, s.out);
    return Unsupported{};
  });
}

}  // namespace duet::DUET_DEVICE
