// SPDX-License-Identifier: Apache-2.0
// The host's versions of the instructions in simt/wgmma.h: the same layouts; sums are in f32, in order of depth. Each
// warp computes its 16 rows by itself, at once: a store into an operand before the wait, and a sum that is read before
// it, are seen by the software GPU (softgpu/), not here.
#pragma once
#include "simt/host/mma.h"
#include "simt/wgmma.h"  // which includes this file: for SwizzledLines, where this one comes first

namespace duet::simt {
namespace host {

struct WarpgroupProduct {  // of one lane
  SwizzledLines a, b;
  int columns;
  bool trans_a, trans_b;
  const float* d;
  const uint32_t* a_registers = nullptr;  // in place of a
};
void read_operands(const WarpgroupProduct& p, const void* pc);  // what this lane's part of its warp's product reads
void finish_wgmma_bf16(const Lanes& l);
void finish_wgmma_f16(const Lanes& l);

}  // namespace host

template <class T, int kColumns, bool kTransA, bool kTransB>
DUET_UNCHECKED inline void wgmma_m64k16(float (&d)[kColumns / 2], const SwizzledLines& a, const SwizzledLines& b,
                                        DUET_WHERE) {
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 256);
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  const host::WarpgroupProduct in{a, b, kColumns, kTransA, kTransB, d};
  host::read_operands(in, DUET_CALLER);
  float out[kColumns / 2];
  host::warp_collective(UINT32_MAX, host::WarpInstruction::mma, &in, out,
                        std::is_same_v<T, __half> ? &host::finish_wgmma_f16 : &host::finish_wgmma_bf16, at);
  for (int i = 0; i < kColumns / 2; ++i) d[i] = out[i];
}
template <class T, int kColumns, bool kTransB>
DUET_UNCHECKED inline void wgmma_m64k16(float (&d)[kColumns / 2], const uint32_t (&a)[4], const SwizzledLines& b,
                                        DUET_WHERE) {
  static_assert(kColumns == 64 || kColumns == 128);
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  const host::WarpgroupProduct in{{}, b, kColumns, false, kTransB, d, a};
  host::read_operands(in, DUET_CALLER);
  float out[kColumns / 2];
  host::warp_collective(UINT32_MAX, host::WarpInstruction::mma, &in, out,
                        std::is_same_v<T, __half> ? &host::finish_wgmma_f16 : &host::finish_wgmma_bf16, at);
  for (int i = 0; i < kColumns / 2; ++i) d[i] = out[i];
}
template <class T>
inline T* swizzled_start(T* p) {
  return p + ((0 - reinterpret_cast<uintptr_t>(p)) & (kSwizzleBytes - 1)) / sizeof(T);
}
DUET_UNCHECKED inline void fence_async_proxy(DUET_WHERE) { host::proxy_fence(at); }
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kGroups>
inline void wgmma_wait() {}
template <int kGroups = 0, int kSums>
inline void wgmma_wait_for(float (&)[kSums]) {}

}  // namespace duet::simt
