// SPDX-License-Identifier: Apache-2.0
// The host's versions of the instructions in simt/mma.h: the same lane layouts; sums are in f32, in order of depth.
#pragma once
#include <cstdint>

#include "simt/launch.h"

namespace duet::simt {
namespace host {

// Both operands and the sum of one lane.
template <class D>
struct Fragments {
  const uint32_t *a, *b;
  const D* d;
};
// What the last lane to arrive does for all of them (mma.cpp).
void finish_mma_bf16(const Lanes& l);
void finish_mma_f16(const Lanes& l);
void finish_mma_tf32(const Lanes& l);
void finish_mma_s8(const Lanes& l);
void finish_mma_e4m3(const Lanes& l);
void finish_ldmatrix_x4(const Lanes& l);

template <class D>
DUET_UNCHECKED inline void mma(D (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], void (*finish)(const Lanes&),
                               Where at) {
  const Fragments<D> in{a, b, d};
  D out[4];
  warp_collective(UINT32_MAX, WarpInstruction::mma, &in, out, finish, at);
  for (int i = 0; i < 4; ++i) d[i] = out[i];
}

struct LoadMatrix {
  const void* row;
  bool transposed;
};
}  // namespace host

template <class T>
DUET_UNCHECKED inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  host::mma(d, a, b, std::is_same_v<T, __half> ? &host::finish_mma_f16 : &host::finish_mma_bf16, at);
}
DUET_UNCHECKED inline void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma_tf32, at);
}
DUET_UNCHECKED inline void mma_m16n8k32_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma_s8, at);
}
DUET_UNCHECKED inline void mma_m16n8k32_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                             DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma_e4m3, at);
}
template <bool kTrans = false>
DUET_UNCHECKED inline void ldmatrix_x4(uint32_t (&r)[4], const void* row, DUET_WHERE) {
  const host::LoadMatrix in{row, kTrans};
  host::read_matrix_row(row, DUET_CALLER);
  uint32_t out[4];
  host::warp_collective(UINT32_MAX, host::WarpInstruction::ldmatrix, &in, out, &host::finish_ldmatrix_x4, at);
  for (int i = 0; i < 4; ++i) r[i] = out[i];
}
DUET_UNCHECKED inline void cp_async16(void* shared, const void* global, int bytes = 16) {
  host::copy_async(shared, global, 16, bytes, DUET_CALLER);
}
inline void cp_async_commit() { host::commit_copies(); }
template <int kGroups>
inline void cp_async_wait(DUET_WHERE) {
  host::wait_copies(kGroups, at);
}
inline void bar_sync(int id, int threads, DUET_WHERE) { host::named_barrier(id, threads, true, at); }
inline void bar_arrive(int id, int threads, DUET_WHERE) { host::named_barrier(id, threads, false, at); }

}  // namespace duet::simt
