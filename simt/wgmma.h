// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup on Hopper's tensor cores (wgmma.mma_async), both operands in shared memory. A warpgroup is
// four warps of a block, the first of which has a number that 4 divides. The host has versions with the same layouts
// (host/wgmma.h). PTX manual, "Asynchronous Warpgroup Level Matrix Instructions".
//
// A warpgroup that has written its operands, by stores or by cp.async and a wait, executes fence_async_proxy() and a
// barrier; then wgmma_fence(), the products, and wgmma_commit(). Until a wgmma_wait that covers them, the sums may not
// be read, and the operands may not be written.
#pragma once
#include <cstdint>

#include "simt/launch.h"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

// Whether the device has these instructions, and this program code with them: they belong to sm_90a alone
// (kernels/gemm/has_wgmma.cu).
bool has_wgmma(int capability);

// An operand of 16-bit elements in lines of 128 bytes, eight chunks of 8 elements each. A line is a row (along m or n),
// or, where the operand is transposed (its rows are contiguous), a depth. Chunk c of line l is stored at place c ^ l %
// 8 of the line, counted from an address that 1024 divides (swizzled_start). Copies of whole lines and the tensor cores
// then meet all banks. An asynchronous copy whose 128 bytes go to several lines takes several times as long (measured
// on an H100).
struct SwizzledLines {
  const void* start;  // of the first row and depth, as if chunks were not permuted; aligned to 16 bytes
  int next = 0;       // transposed, and of more than 64 rows: bytes from 64 rows to the next 64
};
inline constexpr int kSwizzleBytes = 1024;

}  // namespace duet::DUET_DEVICE

#ifndef __CUDACC__
#include "simt/host/wgmma.h"
#else

namespace duet::DUET_DEVICE {

// The first address from p on where swizzled lines may begin; at most kSwizzleBytes further.
template <class T>
__device__ __forceinline__ T* swizzled_start(T* p) {
  return p + ((0 - shared_address(p)) & (kSwizzleBytes - 1)) / sizeof(T);
}

// The word that describes an operand: its address, the distance of 64 rows (transposed ones only) and of 8 lines, in
// units of 16 bytes, and the order of the chunks.
__device__ __forceinline__ uint64_t describe(const SwizzledLines& m) {
  return uint64_t{shared_address(m.start) >> 4} | static_cast<uint64_t>(m.next >> 4) << 16 |
         uint64_t{kSwizzleBytes >> 4} << 32 | uint64_t{1} << 62;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DUET_WGMMA_SUMS(d, i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]),      \
      "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
#define DUET_WGMMA_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define DUET_WGMMA_SIXTY                                                                                    \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," DUET_WGMMA_TEN(1) DUET_WGMMA_TEN(2) DUET_WGMMA_TEN(3) DUET_WGMMA_TEN(4) \
      DUET_WGMMA_TEN(5)
#define DUET_WGMMA_64(type)                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," DUET_WGMMA_TEN(1)                       \
                   DUET_WGMMA_TEN(2) "%30,%31}, %32, %33, 1, 1, 1, %34, %35;"             \
               : DUET_WGMMA_SUMS(d, 0), DUET_WGMMA_SUMS(d, 16)                            \
               : "l"(describe(a)), "l"(describe(b)), "n"(int{kTransA}), "n"(int{kTransB}) \
               : "memory")
#define DUET_WGMMA_A(a) "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define DUET_WGMMA_64_REGISTERS(type)                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type             \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," DUET_WGMMA_TEN(1)                    \
                   DUET_WGMMA_TEN(2) "%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, %37;" \
               : DUET_WGMMA_SUMS(d, 0), DUET_WGMMA_SUMS(d, 16)                         \
               : DUET_WGMMA_A(a), "l"(describe(b)), "n"(int{kTransB})                  \
               : "memory")
#define DUET_WGMMA_128_REGISTERS(type)                                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " DUET_WGMMA_SIXTY               \
               "%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, %69;"                                       \
               : DUET_WGMMA_SUMS(d, 0), DUET_WGMMA_SUMS(d, 16), DUET_WGMMA_SUMS(d, 32), DUET_WGMMA_SUMS(d, 48) \
               : DUET_WGMMA_A(a), "l"(describe(b)), "n"(int{kTransB})                                          \
               : "memory")
#define DUET_WGMMA_128(type)                                                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " DUET_WGMMA_SIXTY               \
               "%60,%61,%62,%63}, %64, %65, 1, 1, 1, %66, %67;"                                                \
               : DUET_WGMMA_SUMS(d, 0), DUET_WGMMA_SUMS(d, 16), DUET_WGMMA_SUMS(d, 32), DUET_WGMMA_SUMS(d, 48) \
               : "l"(describe(a)), "l"(describe(b)), "n"(int{kTransA}), "n"(int{kTransB})                      \
               : "memory")
#define DUET_WGMMA_256(type)                                                                                           \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " " DUET_WGMMA_SIXTY DUET_WGMMA_TEN(6)     \
                   DUET_WGMMA_TEN(7) DUET_WGMMA_TEN(8) DUET_WGMMA_TEN(9) DUET_WGMMA_TEN(10)                            \
                       DUET_WGMMA_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, %130, %131;" \
               : DUET_WGMMA_SUMS(d, 0), DUET_WGMMA_SUMS(d, 16), DUET_WGMMA_SUMS(d, 32), DUET_WGMMA_SUMS(d, 48),        \
                 DUET_WGMMA_SUMS(d, 64), DUET_WGMMA_SUMS(d, 80), DUET_WGMMA_SUMS(d, 96), DUET_WGMMA_SUMS(d, 112)       \
               : "l"(describe(a)), "l"(describe(b)), "n"(int{kTransA}), "n"(int{kTransB})                              \
               : "memory")
#endif

// d += a b, with a (64, 16), b (16, kColumns), d (64, kColumns) in f32; kColumns 64, 128 or 256. Called by the
// warpgroup. kTransA, kTransB: the operand's rows are contiguous, not its depths. Sum 4 j + 2 h + e of lane l of warp
// w: row 16 w + 8 h + l / 4, column 8 j + l % 4 * 2 + e.
template <class T, int kColumns, bool kTransA, bool kTransB>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[kColumns / 2], const SwizzledLines& a, const SwizzledLines& b) {
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 256);
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kColumns == 64) {
    if constexpr (std::is_same_v<T, __half>)
      DUET_WGMMA_64("f16");
    else
      DUET_WGMMA_64("bf16");
  } else if constexpr (kColumns == 128) {
    if constexpr (std::is_same_v<T, __half>)
      DUET_WGMMA_128("f16");
    else
      DUET_WGMMA_128("bf16");
  } else {
    if constexpr (std::is_same_v<T, __half>)
      DUET_WGMMA_256("f16");
    else
      DUET_WGMMA_256("bf16");
  }
#else
  __trap();
#endif
}

// The same with a in registers, which may not be written before the wait either: register r of lane l of warp w has row
// 16 w + 8 (r % 2) + l / 4, columns l % 4 * 2 + 8 (r / 2) and the next. kColumns 64 or 128.
template <class T, int kColumns, bool kTransB>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[kColumns / 2], const uint32_t (&a)[4], const SwizzledLines& b) {
  static_assert(kColumns == 64 || kColumns == 128);
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kColumns == 64) {
    if constexpr (std::is_same_v<T, __half>)
      DUET_WGMMA_64_REGISTERS("f16");
    else
      DUET_WGMMA_64_REGISTERS("bf16");
  } else {
    if constexpr (std::is_same_v<T, __half>)
      DUET_WGMMA_128_REGISTERS("f16");
    else
      DUET_WGMMA_128_REGISTERS("bf16");
  }
#else
  __trap();
#endif
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Makes this thread's writes to shared memory visible to the tensor cores' reads that a barrier orders after it.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Before the first product, and wherever registers of sums were written since.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// The products since the last commit form a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kGroups of this warpgroup's groups are incomplete.
template <int kGroups>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
// Likewise; these sums, of a group that is complete then, may be read from here on.
template <int kGroups = 0, int kSums>
__device__ __forceinline__ void wgmma_wait_for(float (&d)[kSums]) {
  wgmma_wait<kGroups>();
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
#else
__device__ __forceinline__ void fence_async_proxy() {}
__device__ __forceinline__ void wgmma_fence() {}
__device__ __forceinline__ void wgmma_commit() {}
template <int kGroups>
__device__ __forceinline__ void wgmma_wait() {}
template <int kGroups = 0, int kSums>
__device__ __forceinline__ void wgmma_wait_for(float (&)[kSums]) {}
#endif

}  // namespace duet::DUET_DEVICE
#endif
