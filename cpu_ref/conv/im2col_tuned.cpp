// SPDX-License-Identifier: Apache-2.0
// im2col for elements of 2 or 4 bytes. Threads share the rows of col. A row is made of runs: one for each row of output
// pixels, which is zeros, neighbouring pixels of x (or every stride_w-th), and zeros. Runs are collected in L1 and
// written past the caches when the tensors exceed them; x is read r s times, mostly from cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/im2col_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <utility>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/conv/im2col.h"
#include "cpu_ref/streaming.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// to[j] = x[j stride] for j < n. x holds nothing behind its last element that is copied.
template <class T>
HWY_INLINE void copy_pixels(const T* x, int64_t stride, int64_t n, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (stride == 1)
    return map<false>(
        d, n, [](auto v) HWY_ATTR { return v; }, to, x);
  int64_t j = 0;
  if (stride == 2)
    for (; j + lanes < n; j += lanes) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, x + 2 * j, even, odd);
      hn::StoreU(even, d, to + j);
    }
  for (; j < n; ++j) to[j] = x[j * stride];
}

// Where elements go that follow each other in memory: to y itself, or through a block in L1.
template <bool kStream, class T>
class Sink {
 public:
  explicit Sink(T* y) : y_(y) {}
  // The place for the next n elements, which must be written before the next call. n is at most kBlock with kStream.
  T* next(int64_t n) {
    if (!kStream) return std::exchange(y_, y_ + n);
    if (filled_ + n > kBlock) flush();
    return block_ + std::exchange(filled_, filled_ + n);
  }
  void flush() {
    const hn::ScalableTag<T> d;
    if (kStream)
      map<true>(
          d, filled_, [](auto v) HWY_ATTR { return v; }, y_, static_cast<const T*>(block_));
    y_ += filled_;
    filled_ = 0;
  }
  static constexpr int64_t kBlock = 8192 / sizeof(T);  // elements

 private:
  T* y_;
  int64_t filled_ = 0;
  HWY_ALIGN T block_[kStream ? kBlock : 1];
};

// Rows [first, last) of col.
template <bool kStream, class T>
void im2col_part(const Im2col& p, const T* x, T* col, int64_t first, int64_t last) {
  const int64_t ho = p.ho(), wo = p.wo();
  Sink<kStream, T> sink(col + first * ho * wo);
  // Output pixels [j0, j1) of a row, to where the sink says.
  const auto run = [&](const T* from, int64_t column, int64_t j0, int64_t j1) HWY_ATTR {
    T* to = sink.next(j1 - j0);
    // The pixels of x: from <= column + j stride_w < w.
    const int64_t begin = std::clamp(column >= 0 ? j0 : ceil_div(-column, p.stride_w), j0, j1);
    const int64_t end = from && column < p.w ? std::clamp((p.w - 1 - column) / p.stride_w + 1, begin, j1) : begin;
    std::fill(to, to + (begin - j0), T{0});
    if (end > begin) copy_pixels(from + column + begin * p.stride_w, p.stride_w, end - begin, to + (begin - j0));
    std::fill(to + (end - j0), to + (j1 - j0), T{0});
  };
  for (int64_t of_col = first; of_col < last; ++of_col) {
    const int64_t v = of_col % p.s, u = of_col / p.s % p.r;
    const T* plane = x + of_col / p.s / p.r * p.h * p.w;
    const int64_t column = v * p.dil_w - p.pad_w;
    for (int64_t i = 0; i < ho; ++i) {
      const int64_t row = i * p.stride_h - p.pad_h + u * p.dil_h;
      const T* from = row >= 0 && row < p.h ? plane + row * p.w : nullptr;
      for (int64_t j = 0; j < wo; j += Sink<kStream, T>::kBlock)
        run(from, column, j, std::min(wo, j + Sink<kStream, T>::kBlock));
    }
  }
  sink.flush();
}

void im2col_rows(const Im2col& p, const void* x, void* col, int64_t first, int64_t last, bool stream) {
  const auto run = [&]<class T>() HWY_ATTR {
    const auto part = stream ? im2col_part<true, T> : im2col_part<false, T>;
    part(p, static_cast<const T*>(x), static_cast<T*>(col), first, last);
  };
  size_of(p.dtype) == 4 ? run.template operator()<uint32_t>() : run.template operator()<uint16_t>();
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(im2col_rows);
}  // namespace

void write_im2col(const Im2col& p, const void* x, void* col, bool stream, const CpuContext& cpu) {
  const int64_t pixels = p.ho() * p.wo();
  if (pixels == 0) return;
  cpu.parallel_for(p.rows(), rows_per_chunk(pixels), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(im2col_rows)(p, x, col, first, last, stream);
  });
}

namespace {
Plan im2col_tuned(const Im2col& p, CpuContext& cpu) {
  if (size_of(p.dtype) != 2 && size_of(p.dtype) != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const bool stream = beyond_cache((p.n * p.c * p.h * p.w + p.rows() * p.ho() * p.wo()) * size_of(p.dtype));
  return [p, stream, &cpu](Args t) { write_im2col(p, t[Im2col::x].data, t[Im2col::col].data, stream, cpu); };
}
DUET_REGISTER(im2col_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
