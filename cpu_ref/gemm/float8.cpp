// SPDX-License-Identifier: Apache-2.0
// By integers in vectors of f32: exponent and fraction of a normal value are moved, the bias is changed; a subnormal
// value is a small whole number times 2^-9.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/float8.cpp"  // compiled once per instruction set
#include "cpu_ref/gemm/float8.h"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void widen_part(const f8e4m3* from, int64_t n, bf16* to) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint8_t, decltype(df)> narrow;
  const hn::Rebind<uint16_t, decltype(df)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint16_t*>(to);
  const auto bias = hn::Set(du, 120u << 23);  // 127 less 7
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::PromoteTo(du, hn::LoadU(narrow, bytes + i));
    const auto magnitude = hn::And(value, hn::Set(du, 0x7f));
    const auto normal = hn::Add(hn::ShiftLeft<20>(magnitude), bias);
    const auto small = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, magnitude)), hn::Set(df, 0x1p-9f));
    auto wide = hn::IfThenElse(hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 8)), hn::BitCast(di, small),
                               hn::BitCast(di, normal));
    wide = hn::IfThenElse(hn::Eq(hn::BitCast(di, magnitude), hn::Set(di, 0x7f)), hn::Set(di, 0x7fc00000), wide);
    const auto sign = hn::ShiftLeft<24>(hn::AndNot(hn::Set(du, 0x7f), value));
    // The upper half, whose 16 bits are below 2^31 as a signed number after the shift: exact in DemoteTo.
    const auto bits = hn::ShiftRight<16>(hn::Or(hn::BitCast(du, wide), sign));
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(di, bits)), half, out + i);
  }
  for (; i < n; ++i) to[i] = bf16(static_cast<float>(from[i]));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
HWY_EXPORT(widen_part);

void widen_to_bf16(const f8e4m3* from, int64_t n, bf16* to, CpuContext& cpu) {
  constexpr int64_t kElements = int64_t{1} << 15;  // of a task
  cpu.parallel_for(ceil_div(n, kElements), 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kElements, end = std::min(n, last * kElements);
    HWY_DYNAMIC_DISPATCH(widen_part)(from + begin, end - begin, to + begin);
  });
}

}  // namespace duet
#endif
