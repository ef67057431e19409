// SPDX-License-Identifier: Apache-2.0
// map of floats-inl.h that also asks for what is read next: the second pass over a row, which is in cache by then,
// reads nothing from memory otherwise. Include after foreach_target.
#if defined(DUET_CPU_REF_MAP_AHEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_MAP_AHEAD_INL_H_
#undef DUET_CPU_REF_MAP_AHEAD_INL_H_
#else
#define DUET_CPU_REF_MAP_AHEAD_INL_H_
#endif
#include <algorithm>

#include "cpu_ref/floats-inl.h"
#include "cpu_ref/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// y[i] = f(x[i], ...) over n elements, past the caches with kStream; hwy::FlushStream() must follow then. On the way it
// asks for n elements from each of `next` on, a few at a time: unless rows are so short that hardware prefetchers keep
// up, or so long that this row and the next do not fit L2 together.
template <bool kStream, class D, class F, class T, int kNext, class... X>
HWY_INLINE void map_ahead(D d, int64_t n, const F& f, T* y, const T* const (&next)[kNext], const X*... x) {
  constexpr int64_t kShortRow = 1024, kMaxBytes = 256 << 10, kAtOnce = 256;
  if (n < kShortRow || kNext * n * static_cast<int64_t>(sizeof(T)) > kMaxBytes) return map<kStream>(d, n, f, y, x...);
  // The first run ends where y is aligned, so that all others begin there.
  for (int64_t i = 0, end = std::min(n, kAtOnce + elements_to_alignment(d, y, n)); i < n;
       i = end, end = std::min(n, end + kAtOnce)) {
    for (const T* from : next) prefetch(from + i, end - i);
    map<kStream>(d, end - i, f, y + i, (x + i)...);
  }
}
// The same with `far` decided at run time: the tensors are beyond the caches, so that y is written past them and the
// next elements are asked for.
template <class D, class F, class T, int kNext, class... X>
HWY_INLINE void map_ahead(D d, bool far, int64_t n, const F& f, T* y, const T* const (&next)[kNext], const X*... x) {
  far ? map_ahead<true>(d, n, f, y, next, x...) : map<false>(d, n, f, y, x...);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
