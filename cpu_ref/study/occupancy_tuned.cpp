// SPDX-License-Identifier: Apache-2.0
// study/occupancy on the CPU: each thread has the case's number of vectors in flight. The multiply-adds of a vector
// wait for each other, those of different vectors do not.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/study/occupancy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/simd-inl.h"
#include "ops/study/occupancy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

template <int kChains>
void chain_block(const float* x, float* y, int64_t n, int64_t rounds, float one_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, one_value);
  for (int64_t i = 0; i < n; i += kChains * lanes) {
    decltype(hn::Zero(d)) v[kChains];
    for (int c = 0; c < kChains; ++c) {
      const int64_t at = i + c * lanes;
      v[c] = at < n ? load(d, x + at, n - at, 0.0f) : hn::Zero(d);
    }
    for (int64_t r = 0; r < rounds; ++r)
      for (int c = 0; c < kChains; ++c) v[c] = hn::MulAdd(v[c], one, one);
    for (int c = 0; c < kChains; ++c) {
      const int64_t at = i + c * lanes;
      if (at < n) store(d, v[c], y + at, n - at);
    }
  }
}

// `one` is an argument, so that the compiler knows neither the factor nor the term.
void study_chains(const float* x, float* y, int64_t n, int64_t rounds, int64_t chains, float one) {
  switch (chains) {
    case 1:
      return chain_block<1>(x, y, n, rounds, one);
    case 2:
      return chain_block<2>(x, y, n, rounds, one);
    case 4:
      return chain_block<4>(x, y, n, rounds, one);
    case 8:
      return chain_block<8>(x, y, n, rounds, one);
    default:
      return chain_block<16>(x, y, n, rounds, one);
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(study_chains);

Plan study_occupancy_tuned(const Occupancy& p, CpuContext& cpu) {
  if (p.chains == 0) return Unsupported{"a CPU has no blocks: its rows are those with chains"};
  constexpr int64_t kGrain = 4096;  // elements: whole vectors of all chains
  return [p, &cpu](Args t) {
    const auto* x = t[Occupancy::x].as<const float>();
    auto* y = t[Occupancy::y].as<float>();
    cpu.parallel_for(ceil_div(p.n, kGrain), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * kGrain, to = std::min(p.n, last * kGrain);
      HWY_DYNAMIC_DISPATCH(study_chains)(x + from, y + from, to - from, p.rounds, p.chains, 1.0f);
    });
  };
}
DUET_REGISTER(study_occupancy_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
