// SPDX-License-Identifier: Apache-2.0
// affine with vectors of f32. Threads share the rows of output pixels, all channels at a time. Along a row the position
// in x moves by theta's first column, so that it is one fma from the row's own position, which is computed in double.
// Positions, indices and weights of a vector of pixels serve all channels. Of f32, the four pixels are gathered; of the
// halves, which have no gather, they are loaded one by one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/affine_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "ops/elementwise/affine.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// plane[index] for each lane whose mask is set, else 0. Lanes without the mask have an index within the plane.
template <class T, class D, class VI, class M>
HWY_INLINE hn::Vec<D> pixels(D d, const T* plane, VI index, M mask) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::IfThenElseZero(mask, hn::GatherIndex(d, plane, index));
  } else {
    const hn::RebindToSigned<D> di;
    HWY_ALIGN int32_t at[hn::MaxLanes(d)];
    T values[hn::MaxLanes(d)];
    hn::Store(index, di, at);
    for (size_t k = 0; k < hn::Lanes(d); ++k) values[k] = plane[at[k]];
    return hn::IfThenElseZero(mask, load_as_f32(d, values));
  }
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
             row_length = hn::Set(di, static_cast<int32_t>(p.w));
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
        const auto row1 = hn::Add(row0, hn::Set(di, 1)), column1 = hn::Add(column0, hn::Set(di, 1));
        const auto has_row0 = hn::And(inside, hn::RebindMask(d, hn::Gt(row0, hn::Set(di, -1))));
        const auto has_row1 = hn::And(inside, hn::RebindMask(d, hn::Gt(hn::Add(last_row, hn::Set(di, 1)), row1)));
        const auto has_column0 = hn::RebindMask(d, hn::Gt(column0, hn::Set(di, -1)));
        const auto has_column1 = hn::RebindMask(d, hn::Gt(row_length, column1));
        const auto line0 = hn::Mul(clamped(row0, last_row), row_length),
                   line1 = hn::Mul(clamped(row1, last_row), row_length);
        const auto at0 = clamped(column0, last_column), at1 = clamped(column1, last_column);
        // The channels.
        for (int64_t channel = 0; channel < p.c; ++channel) {
          const int64_t plane = (image * p.c + channel) * p.h * p.w;
          const auto x00 = pixels(d, x + plane, hn::Add(line0, at0), hn::And(has_row0, has_column0));
          const auto x01 = pixels(d, x + plane, hn::Add(line0, at1), hn::And(has_row0, has_column1));
          const auto x10 = pixels(d, x + plane, hn::Add(line1, at0), hn::And(has_row1, has_column0));
          const auto x11 = pixels(d, x + plane, hn::Add(line1, at1), hn::And(has_row1, has_column1));
          const auto upper = hn::MulAdd(right, x01, hn::Mul(hn::Sub(one, right), x00));
          const auto lower = hn::MulAdd(right, x11, hn::Mul(hn::Sub(one, right), x10));
          store_f32_as(d, hn::MulAdd(down, lower, hn::Mul(hn::Sub(one, down), upper)), y + plane + i * p.w + j,
                       p.w - j);
        }
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
