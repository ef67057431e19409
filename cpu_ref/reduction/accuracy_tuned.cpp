// SPDX-License-Identifier: Apache-2.0
// accuracy with vectors of f32: counts the columns that rank above the label's, left of it and right of it. Threads
// share the rows; their counts are whole numbers, so that the order of additions does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/accuracy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <atomic>

#include "core/denormals.h"
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "ops/reduction/accuracy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// How many of n elements `above` holds for: a function from a vector to a mask. Four counts at a time.
template <class T, class Above>
HWY_INLINE int64_t count(const T* x, int64_t n, const Above& above) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto minus_one = hn::Set(di, -1);
  const auto ones = [&](auto mask) HWY_ATTR { return hn::IfThenElseZero(hn::RebindMask(di, mask), minus_one); };
  auto sum0 = hn::Zero(di), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, ones(above(load_as_f32(d, x + i))));
    sum1 = hn::Add(sum1, ones(above(load_as_f32(d, x + i + lanes))));
    sum2 = hn::Add(sum2, ones(above(load_as_f32(d, x + i + 2 * lanes))));
    sum3 = hn::Add(sum3, ones(above(load_as_f32(d, x + i + 3 * lanes))));
  }
  for (; i < n; i += lanes) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(HWY_MIN(lanes, n - i)));
    sum0 = hn::Add(sum0, ones(hn::And(exists, above(load_as_f32(d, x + i, n - i)))));
  }
  const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return -static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(di, sum)));
}

// How many of the rows [first, last) are right.
int64_t right_rows(const Accuracy& p, Args t, int64_t first, int64_t last) {
  const ScopedKeepDenormals keep;  // they rank by their values
  const hn::ScalableTag<float> d;
  const auto* label = t[Accuracy::label].as<const int32_t>();
  int64_t right = 0;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[Accuracy::x].as<const T>() + r * p.cols;
      const int64_t wanted = label[r];
      if (wanted < 0 || wanted >= p.cols) continue;
      const hn::CappedTag<float, 1> one;
      const float score = hn::GetLane(load_as_f32(one, x + wanted));
      const auto s = hn::Set(d, score);
      int64_t before = 0;
      if (score != score) {  // only NaN are equal to it, and nothing is above
        before = count(x, wanted, [](auto v) HWY_ATTR { return hn::IsNaN(v); });
      } else {
        before = count(x, wanted, [s](auto v) HWY_ATTR { return hn::Not(hn::Lt(v, s)); });
        before += count(x + wanted + 1, p.cols - wanted - 1, [s](auto v) HWY_ATTR { return hn::Not(hn::Le(v, s)); });
      }
      right += before < p.k ? 1 : 0;
    }
  });
  return right;
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(right_rows);

Plan accuracy_tuned(const Accuracy& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    std::atomic<int64_t> right{0};
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      right.fetch_add(HWY_DYNAMIC_DISPATCH(right_rows)(p, t, first, last), std::memory_order_relaxed);
    });
    *t[Accuracy::correct].as<int32_t>() = static_cast<int32_t>(right.load());
  };
}
DUET_REGISTER(accuracy_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
