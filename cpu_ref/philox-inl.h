// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 with vectors: as many blocks at once as a vector has 64-bit lanes. The numbers are those of
// core/philox.h. Used by dropout_tuned.cpp. Include after foreach_target.
#if defined(DUET_CPU_REF_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_PHILOX_INL_H_
#undef DUET_CPU_REF_PHILOX_INL_H_
#else
#define DUET_CPU_REF_PHILOX_INL_H_
#endif
#include "core/philox.h"
#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// philox_fill writes a multiple of this many numbers.
inline constexpr int64_t kPhiloxUnit = 32;  // 8 blocks of 4, a vector of 512 bits

#if HWY_TARGET == HWY_SCALAR
// bits[i] = philox_bits(4 block + i, key) for i < n.
HWY_INLINE void philox_fill(uint64_t block, uint64_t key, uint32_t* bits, int64_t n) {
  for (int64_t i = 0; i < n; i += 4) {
    const Philox4 four = philox4x32_10(block + static_cast<uint64_t>(i / 4), key);
    for (int64_t j = 0; j < 4; ++j) bits[i + j] = four.v[j];
  }
}
#else
// bits[i] = philox_bits(4 block + i, key) for i < n. Each 64-bit lane holds one word of one block in its lower half. A
// product of two lower halves leaves its high word in the upper half, which the next product ignores.
HWY_INLINE void philox_fill(uint64_t block, uint64_t key, uint32_t* bits, int64_t n) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  constexpr size_t kMaxLanes = hn::MaxLanes(d);
  const size_t lanes = hn::Lanes(d);
  // The lanes take the blocks in an order that the interleaves at the end, which work within 128-bit parts, turn into
  // the order of memory.
  HWY_ALIGN uint64_t order[kMaxLanes];
  for (size_t i = 0; i < lanes; ++i) order[i] = i / 2 + i % 2 * (lanes / 2);
  const auto low = hn::Set(d, 0xffffffffu);
  const auto wide = [d32](auto v) HWY_ATTR { return hn::BitCast(d32, v); };

  auto counter = hn::Add(hn::Set(d, block), hn::Load(d, order));
  for (int64_t i = 0; i < n; i += 4 * static_cast<int64_t>(lanes)) {
    auto c0 = counter, c1 = hn::ShiftRight<32>(counter), c2 = hn::Zero(d), c3 = hn::Zero(d);
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    // Ten rounds.
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const auto p0 = hn::MulEven(wide(c0), hn::Set(d32, 0xD2511F53u)),
                 p1 = hn::MulEven(wide(c2), hn::Set(d32, 0xCD9E8D57u));
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    // Four words of each block, side by side.
    const auto a = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1)), b = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreU(wide(hn::InterleaveLower(d, a, b)), d32, bits + i);
    hn::StoreU(wide(hn::InterleaveUpper(d, a, b)), d32, bits + i + 2 * lanes);
    counter = hn::Add(counter, hn::Set(d, lanes));
  }
}
#endif

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
