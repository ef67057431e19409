// SPDX-License-Identifier: Apache-2.0
// gemm of i8: int8_product.h multiplies rows of a by rows of b', both with k contiguous. An operand that lies the other
// way is transposed first, 16 x 16 bytes at a time in registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/gemm_int8.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu_ref/gemm/gemm_int8.h"
#include "cpu_ref/gemm/int8_product.h"

HWY_BEFORE_NAMESPACE();
namespace duet::int8::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
constexpr int kBlock = 16;

// A perfect shuffle of the bytes: the two halves, rows 0-7 and 8-15, are interleaved. Of the 8 bits of a byte's index,
// 4 of its row and 4 of its column, the first becomes the last.
HWY_INLINE void shuffle(const uint8_t (&from)[kBlock][kBlock], uint8_t (&to)[kBlock][kBlock]) {
  for (int i = 0; i < kBlock / 2; ++i) {
#if HWY_TARGET == HWY_SCALAR
    for (int j = 0; j < kBlock; ++j) {
      to[2 * i + j / 8][j % 8 * 2] = from[i][j];
      to[2 * i + j / 8][j % 8 * 2 + 1] = from[i + kBlock / 2][j];
    }
#else
    const hn::FixedTag<uint8_t, kBlock> d;
    const auto one = hn::Load(d, from[i]), two = hn::Load(d, from[i + kBlock / 2]);
    hn::Store(hn::InterleaveLower(d, one, two), d, to[2 * i]);
    hn::Store(hn::InterleaveUpper(d, one, two), d, to[2 * i + 1]);
#endif
  }
}

// to (cols, rows) = the transpose of from (rows, cols), for rows [first, last) of `to`.
void transpose(const int8_t* from, int64_t rows, int64_t cols, int8_t* to, int64_t first, int64_t last) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint8_t*>(to);
  for (int64_t c = first; c < last; c += kBlock)
    for (int64_t r = 0; r < rows; r += kBlock) {
      if (c + kBlock > last || r + kBlock > rows) {
        for (int64_t j = c; j < std::min(last, c + kBlock); ++j)
          for (int64_t i = r; i < std::min(rows, r + kBlock); ++i) out[j * rows + i] = bytes[i * cols + j];
        continue;
      }
      // After four shuffles row and column have exchanged their places.
      alignas(16) uint8_t a[kBlock][kBlock], b[kBlock][kBlock];
      for (int i = 0; i < kBlock; ++i) std::memcpy(a[i], bytes + (r + i) * cols + c, kBlock);
      shuffle(a, b);
      shuffle(b, a);
      shuffle(a, b);
      shuffle(b, a);
      for (int j = 0; j < kBlock; ++j) std::memcpy(out + (c + j) * rows + r, a[j], kBlock);
    }
}

}  // namespace duet::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace int8 {
namespace {
HWY_EXPORT(transpose);

// to (count, k) = the transpose of from (k, count).
void transpose_by_threads(const int8_t* from, int64_t k, int64_t count, int8_t* to, CpuContext& cpu) {
  constexpr int64_t kBytesOfATask = 1 << 16;
  const int64_t grain = 16 * std::max<int64_t>(1, kBytesOfATask / 16 / std::max<int64_t>(1, k));
  cpu.parallel_for((count + grain - 1) / grain, 1, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(transpose)(from, k, count, to, first * grain, std::min(count, last * grain));
  });
}

// c (rows of n) = the sums of a piece, less what they are too large by.
void keep(const Finish& f, int32_t* c, int64_t n) {
  for (int64_t i = 0; i < f.rows; ++i) {
    const uint32_t offset = f.offset ? static_cast<uint32_t>(f.offset[i]) : 0;  // sums may have wrapped around
    int32_t* const to = c + (f.i0 + i) * n + f.o0;
    const int32_t* const from = f.sums + i * kColumns;
    for (int64_t j = 0; j < f.columns; ++j) to[j] = static_cast<int32_t>(static_cast<uint32_t>(from[j]) - offset);
  }
}
}  // namespace
}  // namespace int8

Plan gemm_int8(const Gemm& p, CpuContext& cpu) {
  WorkspaceLayout workspace;
  const int8::Product product(p.m, p.n, p.k, cpu, workspace);
  const auto rows_of_a = workspace.add<int8_t>(p.trans_a ? p.m * p.k : 0);
  const auto rows_of_b = workspace.add<int8_t>(p.trans_b ? 0 : p.n * p.k);
  std::string algorithm = product.describe();
  if (p.trans_a) algorithm += ", a transposed first";
  if (!p.trans_b) algorithm += ", b transposed first";
  return Plan([p, product, rows_of_a, rows_of_b, &cpu](Args t) {
           for (int64_t i = 0; i < p.batch; ++i) {
             const int8_t* a = t[Gemm::a].as<const int8_t>() + i * p.m * p.k;
             const int8_t* b = t[Gemm::b].as<const int8_t>() + i * p.k * p.n;
             int32_t* const c = t[Gemm::c].as<int32_t>() + i * p.m * p.n;
             if (p.trans_a) {
               int8_t* const to = t.workspace(rows_of_a);
               int8::transpose_by_threads(a, p.k, p.m, to, cpu);
               a = to;
             }
             if (!p.trans_b) {
               int8_t* const to = t.workspace(rows_of_b);
               int8::transpose_by_threads(b, p.k, p.n, to, cpu);
               b = to;
             }
             product(t, a, b, [&](const int8::Finish& piece) { int8::keep(piece, c, p.n); });
           }
         })
      .with(algorithm, std::move(workspace));
}

}  // namespace duet
#endif
