// SPDX-License-Identifier: Apache-2.0
// rope and its backward with vectors of f32. Threads share the tokens. The sines and cosines of a token are computed
// once for all its heads, in L1: up to the fraction of a turn in integers (ops/elementwise/rope_turns.h), then by
// polynomials. Results that would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/rope_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <vector>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/rope.h"

#ifndef DUET_CPU_REF_ROPE_JOB_
#define DUET_CPU_REF_ROPE_JOB_
namespace duet {
struct RopeJob {  // of rope or its backward, which differ in the sign of the angle
  int64_t length, heads, half;
  DType dtype;
  bool backward, stream;
  const uint64_t* turns;    // of each pair from token to token, (half)
  const int32_t* position;  // of each sequence's first token; null: 0
  const void* from;
  void* to;
};
}  // namespace duet
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

constexpr int64_t kPairs = 512;  // whose sines and cosines are in L1 at once

// sines and cosines of n <= kPairs angles, in turns of 2^-32. Whole vectors are written: the arrays have room.
HWY_INLINE void sines_and_cosines(const uint32_t* fractions, int64_t n, bool negative, float* sines, float* cosines) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(du, 1), two = hn::Set(du, 2), flip = hn::Set(du, negative ? 0x80000000u : 0);
  for (int64_t i = 0; i < n; i += lanes) {
    // The nearest quarter of a turn, and the rest of up to an eighth of a turn.
    const auto fraction = hn::Load(du, fractions + i);
    const auto quarter = hn::ShiftRight<30>(hn::Add(fraction, hn::Set(du, 0x20000000u)));
    const auto rest = hn::BitCast(di, hn::Sub(fraction, hn::ShiftLeft<30>(quarter)));
    const auto r = hn::Mul(hn::ConvertTo(d, rest), hn::Set(d, rope::kAngleOfBit)), z = hn::Mul(r, r);
    // Polynomials.
    auto s = hn::MulAdd(z, hn::Set(d, rope::kSin[2]), hn::Set(d, rope::kSin[1]));
    s = hn::MulAdd(hn::Mul(r, z), hn::MulAdd(z, s, hn::Set(d, rope::kSin[0])), r);
    auto c = hn::MulAdd(z, hn::Set(d, rope::kCos[2]), hn::Set(d, rope::kCos[1]));
    c = hn::MulAdd(z, c, hn::Set(d, rope::kCos[0]));
    c = hn::MulAdd(hn::Mul(z, z), c, hn::NegMulAdd(z, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
    // By the quarter: which of them, and its sign.
    const auto odd = hn::RebindMask(d, hn::Eq(hn::And(quarter, one), one));
    const auto sign_s = hn::Xor(hn::ShiftLeft<30>(hn::And(quarter, two)), flip);
    const auto sign_c = hn::ShiftLeft<30>(hn::And(hn::Add(quarter, one), two));
    hn::Store(hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, sign_s)), d, sines + i);
    hn::Store(hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, sign_c)), d, cosines + i);
  }
}

// Turns n pairs: x and y point to the first half of a head, the second is `half` elements on. y may be x.
template <bool kStream, class T>
HWY_INLINE void turn_pairs(const T* x, T* y, const float* sines, const float* cosines, int64_t n, int64_t half) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const auto a = load_as_f32(d, x + j), b = load_as_f32(d, x + half + j);
    const auto s = hn::Load(d, sines + j), c = hn::Load(d, cosines + j);
    stream_store<kStream>(d, hn::MulSub(a, c, hn::Mul(b, s)), y + j);
    stream_store<kStream>(d, hn::MulAdd(b, c, hn::Mul(a, s)), y + half + j);
  }
  if (j == n) return;
  const auto a = load_as_f32(d, x + j, n - j), b = load_as_f32(d, x + half + j, n - j);
  const auto s = hn::Load(d, sines + j), c = hn::Load(d, cosines + j);
  store_f32_as(d, hn::MulSub(a, c, hn::Mul(b, s)), y + j, n - j);
  store_f32_as(d, hn::MulAdd(b, c, hn::Mul(a, s)), y + half + j, n - j);
}

// Tokens [first, last) of all sequences.
void rope_tokens(const RopeJob& job, int64_t first, int64_t last) {
  constexpr int64_t kRoom = kPairs + static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  HWY_ALIGN uint32_t fractions[kRoom] = {};
  HWY_ALIGN float sines[kRoom];
  HWY_ALIGN float cosines[kRoom];
  const int64_t half = job.half, width = job.heads * 2 * half;
  for_float(job.dtype, [&]<class T>() HWY_ATTR {
    const bool aligned =
        half * static_cast<int64_t>(sizeof(T)) % 64 == 0 && reinterpret_cast<uintptr_t>(job.to) % 64 == 0;
    const auto turn = job.stream && aligned ? turn_pairs<true, T> : turn_pairs<false, T>;
    for (int64_t token = first; token < last; ++token) {
      const int64_t begin = job.position ? job.position[token / job.length] : 0;
      const auto t = static_cast<uint64_t>(begin + token % job.length);
      for (int64_t pair = 0; pair < half; pair += kPairs) {
        const int64_t n = HWY_MIN(kPairs, half - pair);
        for (int64_t j = 0; j < n; ++j) fractions[j] = static_cast<uint32_t>(job.turns[pair + j] * t >> 32);
        sines_and_cosines(fractions, n, job.backward, sines, cosines);
        const T* x = static_cast<const T*>(job.from) + token * width + pair;
        T* y = static_cast<T*>(job.to) + token * width + pair;
        for (int64_t h = 0; h < job.heads; ++h) turn(x + h * 2 * half, y + h * 2 * half, sines, cosines, n, half);
      }
    }
  });
  if (job.stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(rope_tokens);

// P: Rope or RopeBackward.
template <class P>
Plan plan(const P& p, bool backward, Slot from, Slot to, const CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  std::vector<uint64_t> turns(static_cast<size_t>(p.D / 2));
  for (int64_t j = 0; j < p.D / 2; ++j) turns[static_cast<size_t>(j)] = rope::turns_per_token(j, p.D, p.base);
  const int64_t tokens = p.B * p.T, width = p.H * p.D;
  const bool stream = beyond_cache(2 * tokens * width * size_of(p.dtype));
  return [p, backward, stream, from, to, tokens, width, turns = std::move(turns), &cpu](Args t) {
    const int32_t* position = nullptr;
    if constexpr (std::is_same_v<P, Rope>)
      if (p.positioned) position = t[Rope::position].template as<const int32_t>();
    const RopeJob job{p.T, p.H, p.D / 2, p.dtype, backward, stream, turns.data(), position, t[from].data, t[to].data};
    cpu.parallel_for(tokens, rows_per_chunk(width), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(rope_tokens)(job, first, last);
    });
  };
}

Plan rope_tuned(const Rope& p, CpuContext& cpu) { return plan(p, false, Rope::x, Rope::y, cpu); }
DUET_REGISTER(rope_tuned);  // cpu.tuned

Plan rope_backward_tuned(const RopeBackward& p, CpuContext& cpu) {
  return plan(p, true, RopeBackward::dy, RopeBackward::dx, cpu);
}
DUET_REGISTER(rope_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
