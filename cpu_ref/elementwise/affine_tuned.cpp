// SPDX-License-Identifier: Apache-2.0
// affine with vectors of f32. Threads share the rows of output pixels, all channels at a time. Along a row the position
// in x moves by theta's first column, so that it is one fma from the row's own position, which is computed in double.
// Positions, indices and weights of a vector of pixels serve all channels. Of the four pixels around a position, the
// two of a row lie side by side: in a small plane of f32 they are gathered, otherwise loaded as one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/affine_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/pairs-inl.h"
#include "ops/elementwise/affine.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Bytes of a plane whose f32 pixels are gathered: beyond them, loads of pairs hide the latency of L2 better.
constexpr int64_t kMaxGathered = 32 << 10;

// Where pixels are loaded: index, the same in memory, and from the first pixel of a pair to the second, 0 or 1.
struct PairPlaces {
  hn::Vec<hn::ScalableTag<int32_t>> index;
  const int32_t* at;
  int32_t second;
};

// first: plane[index], second: plane[index + places.second], in each lane.
template <bool kGather, class T, class D>
HWY_INLINE void load_pairs_at(D d, const T* plane, const PairPlaces& places, hn::Vec<D>& first, hn::Vec<D>& second) {
  if constexpr (kGather) {
    first = hn::GatherIndex(d, plane, places.index);
    second = hn::GatherIndex(d, plane + places.second, places.index);
    return;
  }
  constexpr size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN T pairs[2 * kLanes];
  if (HWY_LIKELY(places.second == 1)) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kLanes; ++k)
      std::memcpy(static_cast<void*>(pairs + 2 * k), static_cast<const void*>(plane + places.at[k]), 2 * sizeof(T));
  } else {
    for (size_t k = 0; k < kLanes; ++k) pairs[2 * k] = pairs[2 * k + 1] = plane[places.at[k]];
  }
  load_pairs(d, pairs, 2 * kLanes, first, second);
}

// Rows [first, last) of output pixels of all images.
void affine_rows(const Affine& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f), below = hn::Set(d, -1.0f);
  const auto height = hn::Set(d, static_cast<float>(p.h)), width = hn::Set(d, static_cast<float>(p.w));
  const auto zero_index = hn::Zero(di), last_row = hn::Set(di, static_cast<int32_t>(p.h - 1)),
             last_column = hn::Set(di, static_cast<int32_t>(p.w - 1)),
             last_pair = hn::Set(di, static_cast<int32_t>(std::max<int64_t>(0, p.w - 2))),
             row_length = hn::Set(di, static_cast<int32_t>(p.w));
  const int32_t second_at = p.w > 1 ? 1 : 0;
  [[maybe_unused]] const bool gather = p.h * p.w * int64_t{sizeof(float)} <= kMaxGathered;
  HWY_ALIGN int32_t at0[hn::MaxLanes(d)], at1[hn::MaxLanes(d)];
  const auto clamped = [&](auto v, auto most) HWY_ATTR { return hn::Max(hn::Min(v, most), zero_index); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Affine::x].as<const T>();
    T* y = t[Affine::y].as<T>();
    for (int64_t r = first; r < last; ++r) {
      const int64_t image = r / p.h, i = r % p.h;
      // The position of the middle of the row, in pixels, and how far it moves from pixel to pixel.
      const float* theta = t[Affine::theta].as<const float>() + image * 6;
      const auto w = static_cast<double>(p.w), h = static_cast<double>(p.h);
      const double v = (2 * static_cast<double>(i) + 1) / h - 1;
      const auto middle_column = static_cast<float>(((theta[1] * v + theta[2] + 1) * w - 1) / 2);
      const auto middle_row = static_cast<float>(((theta[4] * v + theta[5] + 1) * h - 1) / 2);
      const auto column_step = hn::Set(d, theta[0]), row_step = hn::Set(d, static_cast<float>(theta[3] * h / w));
      for (int64_t j = 0; j < p.w; j += lanes) {
        // Positions; those far outside, and what is not a number, count as outside.
        const auto from_middle =
            hn::Add(hn::Iota(d, static_cast<float>(j)), hn::Set(d, 0.5f - 0.5f * static_cast<float>(p.w)));
        auto column = hn::MulAdd(column_step, from_middle, hn::Set(d, middle_column));
        auto row = hn::MulAdd(row_step, from_middle, hn::Set(d, middle_row));
        const auto inside = hn::And(hn::And(hn::Gt(row, below), hn::Lt(row, height)),
                                    hn::And(hn::Gt(column, below), hn::Lt(column, width)));
        column = hn::IfThenElseZero(inside, column);
        row = hn::IfThenElseZero(inside, row);
        // Indices and weights of the four pixels.
        const auto top = hn::Floor(row), left = hn::Floor(column);
        const auto down = hn::Sub(row, top), right = hn::Sub(column, left);
        const auto row0 = hn::ConvertTo(di, top), column0 = hn::ConvertTo(di, left);
        const auto row1 = hn::Add(row0, hn::Set(di, 1));
        const auto has_row0 = hn::And(inside, hn::RebindMask(d, hn::Gt(row0, hn::Set(di, -1))));
        const auto has_row1 = hn::And(inside, hn::RebindMask(d, hn::Gt(hn::Add(last_row, hn::Set(di, 1)), row1)));
        const auto line0 = hn::Mul(clamped(row0, last_row), row_length),
                   line1 = hn::Mul(clamped(row1, last_row), row_length);
        // Of the pair that is loaded, a position left of the first column has its right pixel in the first place, and
        // one right of the last but one its left pixel in the second place.
        const auto is_left = hn::RebindMask(d, hn::Lt(column0, zero_index)),
                   is_right = hn::RebindMask(d, hn::Gt(column0, hn::Sub(last_column, hn::Set(di, 1))));
        const auto pair = clamped(column0, last_pair);
        const PairPlaces upper_places{hn::Add(line0, pair), at0, second_at},
            lower_places{hn::Add(line1, pair), at1, second_at};
        hn::Store(upper_places.index, di, at0);
        hn::Store(lower_places.index, di, at1);
        const auto first_weight = hn::IfThenElse(is_left, right, hn::Sub(one, right));
        const auto second_weight = hn::IfThenElse(is_right, hn::Sub(one, right), right);
        const auto first0 = hn::AndNot(is_right, has_row0), second0 = hn::AndNot(is_left, has_row0);
        const auto first1 = hn::AndNot(is_right, has_row1), second1 = hn::AndNot(is_left, has_row1);
        // The channels.
        const auto channels = [&]<bool kGather>() HWY_ATTR {
          for (int64_t channel = 0; channel < p.c; ++channel) {
            const int64_t plane = (image * p.c + channel) * p.h * p.w;
            hn::Vec<decltype(d)> x00, x01, x10, x11;
            load_pairs_at<kGather>(d, x + plane, upper_places, x00, x01);
            load_pairs_at<kGather>(d, x + plane, lower_places, x10, x11);
            const auto upper = hn::MulAdd(second_weight, hn::IfThenElseZero(second0, x01),
                                          hn::Mul(first_weight, hn::IfThenElseZero(first0, x00)));
            const auto lower = hn::MulAdd(second_weight, hn::IfThenElseZero(second1, x11),
                                          hn::Mul(first_weight, hn::IfThenElseZero(first1, x10)));
            store_f32_as(d, hn::MulAdd(down, lower, hn::Mul(hn::Sub(one, down), upper)), y + plane + i * p.w + j,
                         p.w - j);
          }
        };
        if constexpr (is_half<T>)
          channels.template operator()<false>();
        else
          gather ? channels.template operator()<true>() : channels.template operator()<false>();
      }
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(affine_rows);

Plan affine_tuned(const Affine& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (p.w == 0) return;
    cpu.parallel_for(p.n * p.h, rows_per_chunk(4 * p.c * p.w), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(affine_rows)(p, t, first, last);
    });
  };
}
DUET_REGISTER(affine_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
