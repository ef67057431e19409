// SPDX-License-Identifier: Apache-2.0
// Shared by the tuned kernels: accesses of up to 16 bytes (Pack), how elements are distributed over threads
// (map_kernel, for_row), and reductions over a warp or a block.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// kSize consecutive elements, loaded or stored by one access of 1 to 16 bytes. kSize = 1 is for unaligned data.
template <class T, int kSize = 16 / sizeof(T)>
struct alignas(kSize * sizeof(T)) Pack {
  static_assert(kSize * sizeof(T) <= 16);
  T at[kSize];
};
template <class T>
inline constexpr int kPack = 16 / sizeof(T);  // elements in 16 bytes

namespace access {  // the built-in type of kBytes bytes
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
__device__ __forceinline__ Pack<T, kSize> load_pack(const T* p) {  // p is aligned to the pack
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

// Whether all these addresses are aligned to 16 bytes.
template <class... P>
bool aligned16(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}
// Whether all these addresses have the same offset from a 16-byte boundary.
template <class First, class... P>
bool same_offset16(const First* first, const P*... pointers) {
  return (((reinterpret_cast<uintptr_t>(pointers) - reinterpret_cast<uintptr_t>(first)) % 16 == 0) && ...);
}

// --- elementwise: one pack per thread, kMapBlock threads per block --------------------------------------------------

constexpr int kMapBlock = 256;

inline Grid map_grid(int64_t n, int64_t pack, cudaStream_t stream) {
  return {.blocks = ceil_div(n, kMapBlock * pack), .threads = kMapBlock, .stream = stream};
}

// Calls f.operator()<kSize>(i) for this thread's pack, whose first element is i. The thread whose pack is not complete
// calls f.operator()<1>(i) for each of the last n % kSize elements. Called by all threads of a map_grid(n, kSize).
template <int kSize, class F>
__device__ __forceinline__ void for_my_pack(int64_t n, F&& f) {
  const int64_t i = (int64_t{blockIdx.x} * kMapBlock + threadIdx.x) * kSize;
  if (i + kSize <= n)
    f.template operator()<kSize>(i);
  else
    for (int64_t j = i; j < n; ++j) f.template operator()<1>(j);
}

// y[i] = op(x[i]...). A map_grid(n, kSize), no shared memory. y may be one of x: a thread reads its elements before it
// writes them. x, y: (n).
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
// Launches map_kernel with packs of 16 bytes of Y where every address is aligned, else with single elements.
template <class Op, class Y, class... X>
void launch_map(cudaStream_t stream, Op op, int64_t n, Y* y, const X*... x) {
  if (aligned16(y, x...))
    launch(map_kernel<kPack<Y>, Op, Y, X...>, map_grid(n, kPack<Y>, stream), op, n, y, x...);
  else
    launch(map_kernel<1, Op, Y, X...>, map_grid(n, 1, stream), op, n, y, x...);
}

// --- rows -----------------------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ int64_t elements_to_alignment(const T* p) {  // elements before the next 16-byte boundary
  return static_cast<int64_t>((16 - reinterpret_cast<uintptr_t>(p) % 16) % 16 / sizeof(T));
}

// Calls f(pack, column) for every element of a row of `cols`, distributed over kThreads threads that differ in
// threadIdx.x: single elements before the first 16-byte boundary and after the last, packs of kSize between. kSize = 1:
// single elements only.
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

struct SumOp {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct MaxOp {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Called by all 32 lanes; every lane has the result.
template <class Op>
__device__ __forceinline__ float warp_reduce(float v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v = Op{}(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// Called by all kThreads threads of a one-dimensional block (kThreads = 32: by a warp). Every thread gets the same
// result, computed in the same order. `part`: kThreads / 32 floats of shared memory, which may be reused on return.
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

// The maximum so far and the sum of exp(x - max), in one pass: arXiv:1805.02867.
struct RunningSoftmax {
  float max = -INFINITY, sum = 0;
  __device__ __forceinline__ static float base(float max) { return max == -INFINITY ? 0 : max; }  // avoids -inf - -inf
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
  // The sum relative to another maximum, for adding the sums of several threads.
  __device__ __forceinline__ float sum_to(float common) const { return sum * expf(max - base(common)); }
};

}  // namespace duet::DUET_DEVICE
