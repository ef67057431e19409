// SPDX-License-Identifier: Apache-2.0
// The host's versions of the instructions in simt/mma.h: the same lane layouts; sums are in f32, in order of depth.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "simt/launch.h"

namespace duet::simt {
namespace host {

template <class D>
struct Fragments {
  const uint32_t *a, *b;
  const D* d;
};
inline float number(uint16_t bits, __nv_bfloat16) { return std::bit_cast<float>(uint32_t{bits} << 16); }
DUET_UNCHECKED inline float number(uint16_t bits, __half) { return __half2float(std::bit_cast<__half>(bits)); }

// D (16, 8) += A (16, kDepth) B (kDepth, 8). A register has kPer elements; Element{}(bits, index) is one of them as a
// number. Register r of a: row g + 8 (r % 2), kPer columns from kPer q + kDepth / 2 (r / 2); of b: kPer rows from
// kPer q + kDepth / 2 r, column g; of d: row g + 8 (r / 2), column 2q + r % 2.
template <class D, int kDepth, int kPer, class Element>
DUET_UNCHECKED inline void finish_mma(const Lanes& l) {
  D a[16][kDepth], b[kDepth][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* in = static_cast<const Fragments<D>*>(l.in[lane]);
    const int g = lane / 4, q = lane % 4;
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < kPer; ++e) a[g + 8 * (r % 2)][kPer * q + e + kDepth / 2 * (r / 2)] = Element{}(in->a[r], e);
    for (int r = 0; r < 2; ++r)
      for (int e = 0; e < kPer; ++e) b[kPer * q + e + kDepth / 2 * r][g] = Element{}(in->b[r], e);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto* in = static_cast<const Fragments<D>*>(l.in[lane]);
    auto* out = static_cast<D*>(l.out[lane]);
    for (int r = 0; r < 4; ++r) {
      const int i = lane / 4 + 8 * (r / 2), j = lane % 4 * 2 + r % 2;
      D sum = 0;
      for (int k = 0; k < kDepth; ++k) sum += a[i][k] * b[k][j];
      out[r] = in->d[r] + sum;
    }
  }
}
template <class T>
struct HalfElement {
  DUET_UNCHECKED float operator()(uint32_t bits, int e) const {
    return number(static_cast<uint16_t>(bits >> (16 * e)), T{});
  }
};
struct Tf32Element {
  DUET_UNCHECKED float operator()(uint32_t bits, int) const { return std::bit_cast<float>(bits & 0xffffe000u); }
};
struct ByteElement {
  DUET_UNCHECKED int operator()(uint32_t bits, int e) const { return static_cast<int8_t>(bits >> (8 * e)); }
};
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
template <int kMatrices>
DUET_UNCHECKED inline void finish_ldmatrix(const Lanes& l) {
  for (int m = 0; m < kMatrices; ++m) {
    const uint16_t* rows[8];
    for (int i = 0; i < 8; ++i)
      rows[i] = static_cast<const uint16_t*>(static_cast<const LoadMatrix*>(l.in[8 * m + i])->row);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, q = lane % 4 * 2;
      const bool transposed = static_cast<const LoadMatrix*>(l.in[lane])->transposed;
      const uint32_t low = transposed ? rows[q][g] : rows[g][q], high = transposed ? rows[q + 1][g] : rows[g][q + 1];
      static_cast<uint32_t*>(l.out[lane])[m] = low | high << 16;
    }
  }
}
template <int kMatrices>
DUET_UNCHECKED inline void ldmatrix(uint32_t* r, const void* row, bool transposed, const void* pc, Where at) {
  const LoadMatrix in{row, transposed};
  if (host::lane() < 8 * kMatrices) read_matrix_row(row, pc);
  uint32_t out[kMatrices];
  warp_collective(UINT32_MAX, WarpInstruction::ldmatrix, &in, out, &finish_ldmatrix<kMatrices>, at);
  for (int i = 0; i < kMatrices; ++i) r[i] = out[i];
}

}  // namespace host

template <class T>
DUET_UNCHECKED inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma<float, 16, 2, host::HalfElement<T>>, at);
}
DUET_UNCHECKED inline void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma<float, 8, 1, host::Tf32Element>, at);
}
DUET_UNCHECKED inline void mma_m16n8k32_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], DUET_WHERE) {
  host::mma(d, a, b, &host::finish_mma<int, 32, 4, host::ByteElement>, at);
}
template <bool kTrans = false>
DUET_UNCHECKED inline void ldmatrix_x4(uint32_t (&r)[4], const void* row, DUET_WHERE) {
  host::ldmatrix<4>(r, row, kTrans, DUET_CALLER, at);
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
