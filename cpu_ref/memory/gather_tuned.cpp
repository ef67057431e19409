// SPDX-License-Identifier: Apache-2.0
// gather for elements of 2 or 4 bytes. Threads share the rows of y. Rows are fetched some rows ahead: hardware foresees
// neither where a row lies nor how long it is. Short rows are collected in L1, long ones are copied as they are; y is
// written past the caches when the tensors exceed them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/gather_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/gather.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Elements of a row that is collected in L1: shorter than two cache lines.
template <class T>
inline constexpr int64_t kShortRow = 128 / sizeof(T);

// The row of x for row i of y; null where there is none.
template <class T>
HWY_INLINE const T* row_of(const Gather& p, const T* x, const int32_t* index, int64_t i) {
  return index[i] >= 0 && index[i] < p.rows ? x + index[i] * p.cols : nullptr;
}

// Asks for the first lines of the row for row i of y, of at most 8 lines.
template <class T>
HWY_INLINE void fetch(const Gather& p, const T* x, const int32_t* index, int64_t i) {
  constexpr int64_t kLine = 64 / sizeof(T);
  if (const T* row = row_of(p, x, index, i))
    for (int64_t j = 0; j < HWY_MIN(p.cols, 8 * kLine); j += kLine) hwy::Prefetch(row + j);
}

// Rows [first, last) of y, each shorter than kShortRow.
template <bool kStream, class T>
void short_rows(const Gather& p, const T* x, const int32_t* index, T* y, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 2048;  // elements
  constexpr int64_t kAhead = 16;    // rows
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  HWY_ALIGN T block[kBlock];
  const int64_t rows_at_once = kBlock / p.cols;
  for (int64_t i = first; i < last; i += rows_at_once) {
    const int64_t count = HWY_MIN(rows_at_once, last - i);
    T* to = kStream ? block : y + i * p.cols;
    for (int64_t k = i; k < i + count; ++k) {
      if (k + kAhead < last) {
        if (const T* next = row_of(p, x, index, k + kAhead)) hwy::Prefetch(next);
      }
      const T* row = row_of(p, x, index, k);
      for (int64_t j = 0; j < p.cols; ++j) *to++ = row ? row[j] : T{0};
    }
    if (kStream) map<true>(d, count * p.cols, same, y + i * p.cols, static_cast<const T*>(block));
  }
}

// Rows [first, last) of y.
template <bool kStream, class T>
void long_rows(const Gather& p, const T* x, const int32_t* index, T* y, int64_t first, int64_t last) {
  constexpr int64_t kLinesAhead = 64;  // at most; measured: 8, 16 and 32 leave memory idle
  const int64_t ahead = HWY_MAX(2, kLinesAhead * 64 / static_cast<int64_t>(sizeof(T)) / p.cols);  // rows
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto none = [d](auto) HWY_ATTR { return hn::Zero(d); };
  for (int64_t i = first; i < last; ++i) {
    if (i + ahead < last) fetch(p, x, index, i + ahead);
    T* to = y + i * p.cols;
    if (const T* row = row_of(p, x, index, i)) {
      map<kStream>(d, p.cols, same, to, row);
    } else if (p.rows > 0) {
      map<kStream>(d, p.cols, none, to, x);  // x: some row that can be read
    } else {
      std::fill_n(to, p.cols, T{0});
    }
  }
}

void gather_rows(const Gather& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto run = [&]<class T>() HWY_ATTR {
    const auto* x = static_cast<const T*>(t[Gather::x].data);
    auto* y = static_cast<T*>(t[Gather::y].data);
    const auto rows = p.cols < kShortRow<T> ? (stream ? short_rows<true, T> : short_rows<false, T>)
                                            : (stream ? long_rows<true, T> : long_rows<false, T>);
    rows(p, x, t[Gather::index].as<const int32_t>(), y, first, last);
  };
  size_of(p.dtype) == 4 ? run.template operator()<uint32_t>() : run.template operator()<uint16_t>();
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(gather_rows);

Plan gather_tuned(const Gather& p, CpuContext& cpu) {
  if (size_of(p.dtype) != 2 && size_of(p.dtype) != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const bool stream = beyond_cache((std::min(p.rows, p.n) + p.n) * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    if (p.cols == 0) return;
    cpu.parallel_for(p.n, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gather_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(gather_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
