// SPDX-License-Identifier: Apache-2.0
// strided_copy for elements of 2 or 4 bytes. Threads share the elements of y. Strides of 2, 3 and 4 load whole vectors
// and keep one of each group of elements; larger ones load element by element. Blocks of y are collected in L1 and
// written past the caches when the tensors exceed them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/strided_copy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/strided_copy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// to[i] = x[i stride] for i < n. x holds nothing behind its last element that is copied.
template <class T>
HWY_INLINE void collect(const T* x, int64_t stride, int64_t n, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // Whole groups of `stride` elements; the last group need not be whole.
  const auto groups = [&](const auto& first_of) HWY_ATTR {
    for (; i + lanes < n; i += lanes) hn::StoreU(first_of(x + i * stride), d, to + i);
  };
  if (stride == 2) {
    groups([d](const T* from) HWY_ATTR {
      hn::Vec<decltype(d)> a, b;
      hn::LoadInterleaved2(d, from, a, b);
      return a;
    });
  } else if (stride == 3) {
    groups([d](const T* from) HWY_ATTR {
      hn::Vec<decltype(d)> a, b, c;
      hn::LoadInterleaved3(d, from, a, b, c);
      return a;
    });
  } else if (stride == 4) {
    groups([d](const T* from) HWY_ATTR {
      hn::Vec<decltype(d)> a, b, c, e;
      hn::LoadInterleaved4(d, from, a, b, c, e);
      return a;
    });
  }
  for (; i < n; ++i) to[i] = x[i * stride];
}

template <bool kStream, class T>
void strided_part(const T* x, int64_t stride, T* y, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 2048;  // elements
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  if (stride == 1) return map<kStream>(d, last - first, same, y + first, x + first);
  if (!kStream) return collect(x + first * stride, stride, last - first, y + first);
  HWY_ALIGN T block[kBlock];
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    collect(x + i * stride, stride, n, block);
    map<true>(d, n, same, y + i, static_cast<const T*>(block));
  }
}

void strided_chunk(const StridedCopy& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto run = [&]<class T>() HWY_ATTR {
    const auto* x = static_cast<const T*>(t[StridedCopy::x].data) + p.offset;
    auto* y = static_cast<T*>(t[StridedCopy::y].data);
    (stream ? strided_part<true, T> : strided_part<false, T>)(x, p.stride, y, first, last);
  };
  size_of(p.dtype) == 4 ? run.template operator()<uint32_t>() : run.template operator()<uint16_t>();
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(strided_chunk);

Plan strided_copy_tuned(const StridedCopy& p, CpuContext& cpu) {
  if (size_of(p.dtype) != 2 && size_of(p.dtype) != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const bool stream = beyond_cache((p.length() + p.n) * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(strided_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(strided_copy_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
