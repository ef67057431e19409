// SPDX-License-Identifier: Apache-2.0
// What the tuned kernels share: wide accesses, how elements are dealt to threads, reductions over a warp or a block.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// kSize neighbouring elements, moved as one access of 1 to 16 bytes; kSize = 1 is the form for what is not aligned.
template <class T, int kSize = 16 / sizeof(T)>
struct alignas(kSize * sizeof(T)) Pack {
  static_assert(kSize * sizeof(T) <= 16);
  T at[kSize];
};
template <class T>
inline constexpr int kPack = 16 / sizeof(T);  // elements of a full pack

namespace access {  // the word of as many bytes
template <int kBytes>
struct Word {
  using type = void;
};
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};
}  // namespace access

template <int kSize, class T>
__device__ __forceinline__ Pack<T, kSize> load_pack(const T* p) {  // p: aligned to the pack
  Pack<T, kSize> pack;
  if constexpr (kSize == 1) {
    pack.at[0] = *p;
  } else {
    using Word = typename access::Word<kSize * sizeof(T)>::type;
    *reinterpret_cast<Word*>(&pack) = *reinterpret_cast<const Word*>(p);
  }
  return pack;
}
template <class T, int kSize>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, kSize>& pack) {
  if constexpr (kSize == 1) {
    *p = pack.at[0];
  } else {
    using Word = typename access::Word<kSize * sizeof(T)>::type;
    *reinterpret_cast<Word*>(p) = *reinterpret_cast<const Word*>(&pack);
  }
}

// Whether 16-byte accesses may start at every one of these addresses.
template <class... P>
bool aligned16(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}
// Whether they lie equally far from a 16-byte boundary.
template <class First, class... P>
bool same_offset16(const First* first, const P*... pointers) {
  return (((reinterpret_cast<uintptr_t>(pointers) - reinterpret_cast<uintptr_t>(first)) % 16 == 0) && ...);
}

// --- elementwise: one pack a thread, kMapBlock threads a block ---------------------------------------------------------

constexpr int kMapBlock = 256;

inline Grid map_grid(int64_t n, int64_t pack, cudaStream_t stream) {
  return {.blocks = ceil_div(n, kMapBlock * pack), .threads = kMapBlock, .stream = stream};
}

// f.operator()<kSize>(i) for the pack at element i = 0, kSize, 2 kSize, ... below n, and f.operator()<1>(i) for the last
// n % kSize elements. Called by all threads of a map_grid(n, kSize).
template <int kSize, class F>
__device__ __forceinline__ void for_my_pack(int64_t n, F&& f) {
  const int64_t i = (int64_t{blockIdx.x} * kMapBlock + threadIdx.x) * kSize;
  if (i + kSize <= n)
    f.template operator()<kSize>(i);
  else
    for (int64_t j = i; j < n; ++j) f.template operator()<1>(j);
}

// y[i] = op(x[i]...). y may be any of x: a thread reads its elements before it writes them.
template <int kSize, class Op, class Y, class... X>
__global__ void __launch_bounds__(kMapBlock) map_kernel(Op op, int64_t n, Y* y, const X*... x) {
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    [&](const auto&... packs) {
      Pack<Y, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) out.at[e] = op(packs.at[e]...);
      store_pack(y + i, out);
    }(load_pack<kWidth>(x + i)...);
  });
}
// Launches it with packs of 16 bytes of Y where every address allows.
template <class Op, class Y, class... X>
void launch_map(cudaStream_t stream, Op op, int64_t n, Y* y, const X*... x) {
  if (aligned16(y, x...))
    launch(map_kernel<kPack<Y>, Op, Y, X...>, map_grid(n, kPack<Y>, stream), op, n, y, x...);
  else
    launch(map_kernel<1, Op, Y, X...>, map_grid(n, 1, stream), op, n, y, x...);
}

// --- rows ------------------------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ int64_t elements_to_alignment(const T* p) {  // until the next 16-byte boundary
  return static_cast<int64_t>((16 - reinterpret_cast<uintptr_t>(p) % 16) % 16 / sizeof(T));
}

// f(pack, column) over `cols` elements by kThreads threads that differ in threadIdx.x: single elements up to the first
// 16-byte boundary and after the last, packs of kSize between. kSize = 1: single elements throughout.
template <int kThreads, int kSize, class T, class F>
__device__ __forceinline__ void for_row(const T* row, int64_t cols, F&& f) {
  int64_t head = 0, packs = 0;
  if constexpr (kSize > 1) {
    head = min(cols, elements_to_alignment(row));
    packs = (cols - head) / kSize;
    if (threadIdx.x < head) f(load_pack<1>(row + threadIdx.x), int64_t{threadIdx.x});
    for (int64_t i = threadIdx.x; i < packs; i += kThreads)
      f(load_pack<kSize>(row + head + i * kSize), head + i * kSize);
  }
  for (int64_t c = head + packs * kSize + threadIdx.x; c < cols; c += kThreads) f(load_pack<1>(row + c), c);
}

struct TakeSum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct TakeMax {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Called by all 32 lanes; every lane has the result.
template <class Op>
__device__ __forceinline__ float warp_reduce(float v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v = Op{}(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// Called by all kThreads threads of a one-dimensional block (kThreads = 32: by a warp); every thread has the same result,
// formed in the same order. `part`: kThreads / 32 floats of shared memory, free again on return.
template <class Op, int kThreads>
__device__ __forceinline__ float block_reduce(float v, float* part) {
  v = warp_reduce<Op>(v);
  if constexpr (kThreads > 32) {
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
#pragma unroll
    for (int w = 1; w < kThreads / 32; ++w) v = Op{}(v, part[w]);
    __syncthreads();
  }
  return v;
}

// The maximum so far and the sum of exp(x - max): arXiv:1805.02867.
struct RunningSoftmax {
  float max = -INFINITY, sum = 0;
  __device__ __forceinline__ static float base(float max) { return max == -INFINITY ? 0 : max; }  // never -inf - -inf
  template <class T, int kSize>
  __device__ __forceinline__ void add(const Pack<T, kSize>& pack) {
    float larger = max;
#pragma unroll
    for (int i = 0; i < kSize; ++i) larger = fmaxf(larger, float(pack.at[i]));
    sum *= expf(max - base(larger));
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum += expf(float(pack.at[i]) - base(larger));
    max = larger;
  }
  __device__ __forceinline__ float sum_to(float common) const { return sum * expf(max - base(common)); }
};

}  // namespace duet::DUET_DEVICE
