// SPDX-License-Identifier: Apache-2.0
// CUDA's device vocabulary for g++: keywords, indices, shared memory, barriers, shuffles, atomics, intrinsics. A word
// that is missing here does not compile; a feature that cannot be emulated stops the kernel with a report that names
// it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simt/host/executor.h"

// CUDA's headers define these as nothing for a host compiler: a shared array would silently become local to a thread.
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static_assert(false, "write DUET_SHARED")

#define threadIdx (::duet::simt::host::here.thread)
#define blockIdx (::duet::simt::host::here.block)
#define blockDim (::duet::simt::host::here.block_size)
#define gridDim (::duet::simt::host::here.grid_size)
#define warpSize 32

#define DUET_WHERE ::duet::simt::host::Where at = ::duet::simt::host::Where::current()
#define DUET_CALLER __builtin_return_address(0)
// For runtime code that is compiled inside a kernel file: its accesses are not checked, and it is never inlined, so
// that its return address lies in the kernel.
#define DUET_UNCHECKED __attribute__((noinline, no_sanitize("thread", "undefined"), no_sanitize_coverage))

#define DUET_SHARED(T, name, ...)                           \
  using name##_duet_type = T __VA_ARGS__;                   \
  static const char name##_duet_key = 0;                    \
  name##_duet_type& name = *static_cast<name##_duet_type*>( \
      ::duet::simt::host::static_shared(&name##_duet_key, #name, sizeof(name##_duet_type), sizeof(T)))
#define DUET_DYN_SHARED(T, name) T* const name = static_cast<T*>(::duet::simt::host::dynamic_shared(sizeof(T)))

namespace duet::simt::host {

template <class T>
struct ShuffleIn {
  T value;
  int source;
};
template <class T>
DUET_UNCHECKED inline void finish_shuffle(const Lanes& l) {
  for (int lane = 0; lane < 32; ++lane)
    if (l.mask >> lane & 1) {
      const int source = static_cast<const ShuffleIn<T>*>(l.in[lane])->source;
      if (!(l.mask >> source & 1)) absent_lane(source);
      *static_cast<T*>(l.out[lane]) = static_cast<const ShuffleIn<T>*>(l.in[source])->value;
    }
}
template <class T>
DUET_UNCHECKED inline T shuffle(uint32_t mask, T value, int source, Where at) {
  static_assert(std::is_trivially_copyable_v<T>);
  const ShuffleIn<T> in{value, source};
  T out;
  warp_collective(mask, WarpInstruction::shuffle, &in, &out, &finish_shuffle<T>, at);
  return out;
}

// F{}(lanes) computes one result for all lanes.
template <class In, class Out, class F>
DUET_UNCHECKED inline void finish_uniform(const Lanes& l) {
  Out out = F{}(l);
  for (int lane = 0; lane < 32; ++lane)
    if (l.mask >> lane & 1) *static_cast<Out*>(l.out[lane]) = out;
}
struct Ballot {
  DUET_UNCHECKED uint32_t operator()(const Lanes& l) const {
    uint32_t set = 0;
    for (int lane = 0; lane < 32; ++lane)
      if (l.mask >> lane & 1 && *static_cast<const int*>(l.in[lane])) set |= 1u << lane;
    return set;
  }
};
template <class T, class Op>
struct Fold {
  DUET_UNCHECKED T operator()(const Lanes& l) const {
    T result{};
    bool first = true;
    for (int lane = 0; lane < 32; ++lane)
      if (l.mask >> lane & 1) {
        const T v = *static_cast<const T*>(l.in[lane]);
        result = first ? v : Op{}(result, v);
        first = false;
      }
    return result;
  }
};
template <class T, class Op>
DUET_UNCHECKED inline T reduce(uint32_t mask, T value, Where at) {
  static_assert(std::is_same_v<T, unsigned> || std::is_same_v<T, int>, "__reduce_*_sync takes int or unsigned");
  T out;
  warp_collective(mask, WarpInstruction::reduce, &value, &out, &finish_uniform<T, T, Fold<T, Op>>, at);
  return out;
}
template <class T>
DUET_UNCHECKED inline void finish_match(const Lanes& l) {
  for (int a = 0; a < 32; ++a)
    if (l.mask >> a & 1) {
      uint32_t same = 0;
      for (int b = 0; b < 32; ++b)
        if (l.mask >> b & 1 && std::memcmp(l.in[a], l.in[b], sizeof(T)) == 0) same |= 1u << b;
      *static_cast<uint32_t*>(l.out[a]) = same;
    }
}

struct Add {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Min {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  DUET_UNCHECKED T operator()(T a, T b) const {
    return a ^ b;
  }
};

// *p = f(*p) as one step; returns the value before. Threads are interleaved only at calls of the runtime, so no lock is
// needed.
template <class T, class F>
DUET_UNCHECKED inline T update(T* p, F f, Where at) {
  atomic_access(p, sizeof(T), DUET_CALLER, at);
  const T before = *p;
  *p = f(before);
  return before;
}

}  // namespace duet::simt::host

// --- barriers, shuffles, votes; NOLINTBEGIN(readability-identifier-naming): the names are CUDA's -------------------

inline void __syncthreads(DUET_WHERE) { ::duet::simt::host::block_barrier(false, nullptr, at); }
inline int __syncthreads_count(int p, DUET_WHERE) {
  int votes = 0;
  ::duet::simt::host::block_barrier(p != 0, &votes, at);
  return votes;
}
inline int __syncthreads_or(int p, DUET_WHERE) { return __syncthreads_count(p, at) > 0; }
inline int __syncthreads_and(int p, DUET_WHERE) { return __syncthreads_count(p == 0, at) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu, DUET_WHERE) {
  ::duet::simt::host::warp_collective(mask, ::duet::simt::host::WarpInstruction::barrier, nullptr, nullptr, nullptr,
                                      at);
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int source, int width = 32, DUET_WHERE) {
  const int lane = static_cast<int>(::duet::simt::host::lane());
  return ::duet::simt::host::shuffle(mask, v, (lane & ~(width - 1)) | (source & (width - 1)), at);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int flip, int width = 32, DUET_WHERE) {
  const int lane = static_cast<int>(::duet::simt::host::lane()), source = lane ^ flip;
  return ::duet::simt::host::shuffle(mask, v, source < (lane & ~(width - 1)) + width ? source : lane, at);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned distance, int width = 32, DUET_WHERE) {
  const int lane = static_cast<int>(::duet::simt::host::lane()), d = static_cast<int>(distance);
  return ::duet::simt::host::shuffle(mask, v, (lane & (width - 1)) + d < width ? lane + d : lane, at);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned distance, int width = 32, DUET_WHERE) {
  const int lane = static_cast<int>(::duet::simt::host::lane()), d = static_cast<int>(distance);
  return ::duet::simt::host::shuffle(mask, v, (lane & (width - 1)) >= d ? lane - d : lane, at);
}
inline unsigned __ballot_sync(unsigned mask, int p, DUET_WHERE) {
  using namespace ::duet::simt::host;
  unsigned out = 0;
  warp_collective(mask, WarpInstruction::vote, &p, &out, &finish_uniform<int, unsigned, Ballot>, at);
  return out;
}
inline int __any_sync(unsigned mask, int p, DUET_WHERE) { return __ballot_sync(mask, p, at) != 0; }
inline int __all_sync(unsigned mask, int p, DUET_WHERE) { return __ballot_sync(mask, p == 0, at) == 0; }
template <class T>
inline unsigned __match_any_sync(unsigned mask, T v, DUET_WHERE) {
  using namespace ::duet::simt::host;
  unsigned out = 0;
  warp_collective(mask, WarpInstruction::match, &v, &out, &finish_match<T>, at);
  return out;
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T v, int* all, DUET_WHERE) {
  const unsigned same = __match_any_sync(mask, v, at);
  *all = same == mask;
  return *all ? mask : 0;
}
#define DUET_REDUCE(name, Op)                                                  \
  template <class T>                                                           \
  inline T name(unsigned mask, T v, DUET_WHERE) {                              \
    return ::duet::simt::host::reduce<T, ::duet::simt::host::Op>(mask, v, at); \
  }
DUET_REDUCE(__reduce_add_sync, Add)
DUET_REDUCE(__reduce_min_sync, Min)
DUET_REDUCE(__reduce_max_sync, Max)
DUET_REDUCE(__reduce_and_sync, And)
DUET_REDUCE(__reduce_or_sync, Or)
DUET_REDUCE(__reduce_xor_sync, Xor)
#undef DUET_REDUCE
inline unsigned __activemask() { ::duet::simt::host::unsupported("__activemask"); }

inline void __threadfence(DUET_WHERE) { ::duet::simt::host::thread_fence(at); }
inline void __threadfence_system(DUET_WHERE) { ::duet::simt::host::thread_fence(at); }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned, DUET_WHERE) { ::duet::simt::host::pause(at); }

// --- atomics: block, device and system scope are the same here ------------------------------------------------------

#define DUET_ATOMIC(name, body)                                                                                      \
  template <class T>                                                                                                 \
  __attribute__((always_inline)) inline T name(T* p, std::type_identity_t<T> v, DUET_WHERE) {                        \
    return ::duet::simt::host::update(                                                                               \
        p, [=]([[maybe_unused]] T old) __attribute__((no_sanitize("thread", "undefined")))->T { return body; }, at); \
  }                                                                                                                  \
  template <class T>                                                                                                 \
  __attribute__((always_inline)) inline T name##_block(T* p, std::type_identity_t<T> v, DUET_WHERE) {                \
    return name(p, v, at);                                                                                           \
  }                                                                                                                  \
  template <class T>                                                                                                 \
  __attribute__((always_inline)) inline T name##_system(T* p, std::type_identity_t<T> v, DUET_WHERE) {               \
    return name(p, v, at);                                                                                           \
  }
DUET_ATOMIC(atomicAdd, old + v)
DUET_ATOMIC(atomicSub, old - v)
DUET_ATOMIC(atomicMax, old < v ? v : old)
DUET_ATOMIC(atomicMin, v < old ? v : old)
DUET_ATOMIC(atomicExch, v)
DUET_ATOMIC(atomicAnd, old& v)
DUET_ATOMIC(atomicOr, old | v)
DUET_ATOMIC(atomicXor, old ^ v)
DUET_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
DUET_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef DUET_ATOMIC
template <class T>
__attribute__((always_inline)) inline T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v,
                                                  DUET_WHERE) {
  return ::duet::simt::host::update(
      p, [=](T old) __attribute__((no_sanitize("thread", "undefined")))->T { return old == expected ? v : old; }, at);
}

// --- loads with a hint, bits, arithmetic ----------------------------------------------------------------------------

template <class T>
__attribute__((always_inline)) inline T __ldg(const T* p) {
  ::duet::simt::host::read_only_access(p, sizeof(T));
  return *p;
}
template <class T>
__attribute__((always_inline)) inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
__attribute__((always_inline)) inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
__attribute__((always_inline)) inline T __ldca(const T* p) {
  return *p;
}
template <class T>
__attribute__((always_inline)) inline void __stcs(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
__attribute__((always_inline)) inline void __stcg(T* p, std::type_identity_t<T> v) {
  *p = v;
}

inline float __expf(float x) { return std::exp(x); }
inline float __exp2f(float x) { return std::exp2(x); }
inline float exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}

// CUDA's min and max take numbers of different types; where one of two floats is NaN, the result is the other one.
template <class A, class B, class C = std::common_type_t<A, B>>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr C max(A a, B b) {
  if constexpr (std::is_floating_point_v<C>)
    return std::fmax(C(a), C(b));
  else
    return C(a) < C(b) ? C(b) : C(a);
}
template <class A, class B, class C = std::common_type_t<A, B>>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr C min(A a, B b) {
  if constexpr (std::is_floating_point_v<C>)
    return std::fmin(C(a), C(b));
  else
    return C(b) < C(a) ? C(b) : C(a);
}

// Functions that CUDA's headers define for device code only. Each rounds once, as the instruction does.
inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}
inline __half hexp(__half v) { return __float2half(std::exp(__half2float(v))); }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                        __hfma(__high2half(a), __high2half(b), __high2half(c)));
}  // NOLINTEND(readability-identifier-naming)
