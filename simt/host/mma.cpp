// SPDX-License-Identifier: Apache-2.0
// The arithmetic of mma.h, compiled once and with optimisation: tensor-core kernels spend much of their time here.
#include "simt/host/mma.h"

#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "simt/host/half.h"

namespace duet::simt::host {
namespace {

float tf32_of(uint32_t bits, int) { return std::bit_cast<float>(bits & 0xffffe000u); }
float e4m3_of(uint32_t bits, int e) {
  f8e4m3 value;
  value.bits = static_cast<uint8_t>(bits >> (8 * e));
  return static_cast<float>(value);
}
int byte_of(uint32_t bits, int e) { return static_cast<int8_t>(bits >> (8 * e)); }

// D (16, 8) += A (16, kDepth) B (kDepth, 8). A register has kPer elements; element(bits, index) is one of them as a
// number. Register r of a: row g + 8 (r % 2), kPer columns from kPer q + kDepth / 2 (r / 2); of b: kPer rows from
// kPer q + kDepth / 2 r, column g; of d: row g + 8 (r / 2), column 2q + r % 2.
template <class D, int kDepth, int kPer, auto element>
void finish_mma(const Lanes& l) {
  D a[16][kDepth], b[kDepth][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* in = static_cast<const Fragments<D>*>(l.in[lane]);
    const int g = lane / 4, q = lane % 4;
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < kPer; ++e) a[g + 8 * (r % 2)][kPer * q + e + kDepth / 2 * (r / 2)] = element(in->a[r], e);
    for (int r = 0; r < 2; ++r)
      for (int e = 0; e < kPer; ++e) b[kPer * q + e + kDepth / 2 * r][g] = element(in->b[r], e);
  }
  D sum[16][8] = {};  // each in order of depth
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < kDepth; ++k)
      for (int j = 0; j < 8; ++j) sum[i][j] += a[i][k] * b[k][j];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* in = static_cast<const Fragments<D>*>(l.in[lane]);
    auto* out = static_cast<D*>(l.out[lane]);
    for (int r = 0; r < 4; ++r) out[r] = in->d[r] + sum[lane / 4 + 8 * (r / 2)][lane % 4 * 2 + r % 2];
  }
}

}  // namespace

void finish_mma_bf16(const Lanes& l) { finish_mma<float, 16, 2, bf16_of>(l); }
void finish_mma_f16(const Lanes& l) { finish_mma<float, 16, 2, f16_of>(l); }
void finish_mma_tf32(const Lanes& l) { finish_mma<float, 8, 1, tf32_of>(l); }
void finish_mma_e4m3(const Lanes& l) { finish_mma<float, 32, 4, e4m3_of>(l); }
void finish_mma_s8(const Lanes& l) { finish_mma<int, 32, 4, byte_of>(l); }

void finish_ldmatrix_x4(const Lanes& l) {
  for (int m = 0; m < 4; ++m) {
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

}  // namespace duet::simt::host
