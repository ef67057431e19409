// SPDX-License-Identifier: Apache-2.0
// all_reduce: threads share blocks of columns. A block's sums are formed in L1, replica after replica in their order,
// and then written to all replicas: past the caches where x and y are larger than them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/all_reduce_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/reduction/all_reduce.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
constexpr int64_t kSums = 2048;  // of a block: 8 KiB

void all_reduce_columns(const AllReduce& p, bool stream, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, p.op == ReduceOp::mean ? 1 / static_cast<float>(p.replicas) : 1.0f);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto same = [](auto v) HWY_ATTR { return v; };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[AllReduce::x].as<const T>();
    T* y = t[AllReduce::y].as<T>();
    HWY_ALIGN float sum[kSums];
    const float* sums = sum;
    for (int64_t i = first; i < last; i += kSums) {
      const int64_t count = std::min(kSums, last - i);
      // Sum.
      for (int64_t j = 0; j < count; j += lanes) {
        const int64_t left = count - j;
        auto v = load_as_f32(d, x + i + j, left);
        for (int64_t s = 1; s < p.replicas; ++s) v = hn::Add(v, load_as_f32(d, x + s * p.n + i + j, left));
        hn::Store(hn::Mul(v, factor), d, sum + j);
      }
      // Write to all replicas.
      for (int64_t r = 0; r < p.replicas; ++r) map(d, stream, count, same, y + r * p.n + i, sums);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(all_reduce_columns);

Plan all_reduce_tuned(const AllReduce& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const int64_t bytes = 2 * p.replicas * p.n * size_of(p.dtype);
  const int64_t grain = std::max<int64_t>(64, kChunkElements / p.replicas);
  return [p, grain, stream = beyond_cache(bytes), &cpu](Args t) {
    // A y that is x was just read: its lines are in the caches.
    const bool past = stream && t[AllReduce::y].data != t[AllReduce::x].data;
    cpu.parallel_for(ceil_div(p.n, grain), 1, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(all_reduce_columns)(p, past, t, first * grain, std::min(p.n, last * grain));
    });
  };
}
DUET_REGISTER(all_reduce_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
