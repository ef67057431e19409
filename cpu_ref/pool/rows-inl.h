// SPDX-License-Identifier: Apache-2.0
// What max_pool2d_tuned.cpp and avg_pool2d_tuned.cpp have in common: the walk over rows of nchw planes, forward
// (pool_rows) and backward (unpool_rows), and over pixels of nhwc images, forward (pool_pixels) and backward
// (unpool_pixels). Include after foreach_target.
#if defined(DUET_CPU_REF_POOL_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_POOL_ROWS_INL_H_
#undef DUET_CPU_REF_POOL_ROWS_INL_H_
#else
#define DUET_CPU_REF_POOL_ROWS_INL_H_
#endif
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/pool/comb.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(hn::MaxLanes(hn::ScalableTag<float>()) <= static_cast<size_t>(Comb::kMaxLanes));

// Lays x[0 .. width) out as a comb at `to`. plain: scratch for a row. Elements of the comb that no pixel maps to stay
// as they are.
template <class T>
HWY_INLINE void comb_row(const Comb& c, const T* x, float* plain, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto same = [](auto v) HWY_ATTR { return v; };
  if (c.stride == 1) return map<false>(d, c.width, same, to + c.pad, x);
  // Halves become f32 first.
  const float* from;
  if constexpr (is_half<T>) {
    map<false>(d, c.width, same, plain, x);
    from = plain;
  } else
    from = x;
  // Stride 2: even and odd elements, two vectors at a time.
  int64_t q = 0;
  if (c.stride == 2) {
    float *even = to + c.at(0), *odd = to + c.at(1);
    for (; q + 2 * lanes <= c.width; q += 2 * lanes) {
      hn::Vec<decltype(d)> v0, v1;
      hn::LoadInterleaved2(d, from + q, v0, v1);
      hn::StoreU(v0, d, even + q / 2);
      hn::StoreU(v1, d, odd + q / 2);
    }
  }
  // The rest, tooth by tooth.
  for (const int64_t begin = q; q < std::min(begin + c.stride, c.width); ++q) {
    float* tooth = to + c.at(q);
    for (int64_t k = q; k < c.width; k += c.stride) *tooth++ = from[k];
  }
}

// The inverse, for a stride above 1: writes plain[0 .. width) from a comb.
HWY_INLINE void uncomb_row(const Comb& c, const float* from, float* plain) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t q = 0;
  if (c.stride == 2) {
    const float *even = from + c.at(0), *odd = from + c.at(1);
    for (; q + 2 * lanes <= c.width; q += 2 * lanes)
      hn::StoreInterleaved2(hn::LoadU(d, even + q / 2), hn::LoadU(d, odd + q / 2), d, plain + q);
  }
  for (const int64_t begin = q; q < std::min(begin + c.stride, c.width); ++q) {
    const float* tooth = from + c.at(q);
    for (int64_t k = q; k < c.width; k += c.stride) plain[k] = *tooth++;
  }
}

// Forward: rows [first, last) of y, counted through all planes. Each row of x is reduced along its width once, into an
// entry of a ring that holds as many rows as a window spans:
//   along(combed, row, entry)            reduces the combed row of x to an entry of the ring
//   down(o, ring, slot, step, rows, i)   reduces `rows` entries, from `slot` on and every `step`-th, to row o of y,
//                                        which is row i of its plane
// outside: the value of pixels outside the plane.
template <class T, class Along, class Down>
HWY_INLINE void pool_rows(const Pool2d& p, const T* x, int64_t first, int64_t last, float outside, float* scratch,
                          const Along& along, const Down& down) {
  const PoolScratch s(p);
  float *combed = scratch, *plain = combed + s.comb.floats(), *ring = plain + s.plain;
  std::fill_n(combed, s.comb.floats(), outside);
  const int64_t ho = p.ho(), extent = p.dil_h * (p.r - 1) + 1;
  int64_t next = 0;  // the first row of the plane that is not in the ring yet
  for (int64_t o = first; o < last; ++o) {
    const int64_t plane = o / ho, i = o % ho, top = i * p.stride_h - p.pad_h;
    if (i == 0) next = 0;
    // Rows of x that this row of y is the first to need.
    const int64_t end = std::min(p.h, top + extent);
    for (int64_t row = std::max({int64_t{0}, top, next}); row < end; ++row) {
      comb_row(s.comb, x + (plane * p.h + row) * p.w, plain, combed);
      along(combed, row, ring + row % s.ring_rows * s.entry);
    }
    next = std::max(next, end);
    // Reduce down the window.
    const TapsInside u(top, p.h, p.r, p.dil_h);
    down(o, ring, (top + u.first * p.dil_h) % s.ring_rows, p.dil_h % s.ring_rows, u.last - u.first, i);
  }
}

// The rows of y whose windows hold a row of dx, from the top, as entries of a ring.
struct HeldRows {
  const WindowsAround* rows;
  const float* ring;
  int64_t ring_rows, entry;
  int64_t count = 0;
  const float* first[2] = {};  // mostly all of them

  HWY_INLINE void find() {
    count = 0;
    each([&](const float* at) {
      if (count < 2) first[count] = at;
      ++count;
    });
  }
  template <class F>
  HWY_INLINE void each(const F& f) const {
    for (int64_t i = rows->first(); i < rows->end(); ++i)
      if (rows->holds(i)) f(ring + i % ring_rows * entry);
  }
};

// Backward: rows [first, last) of dx, counted through all planes. Rows of y wait in a ring while there are windows of
// theirs:
//   enter(row, i, entry)   row of y, counted through all planes, which is row i of its plane, gets an entry of the ring
//   leave(o, held)         writes row o of dx
template <class Enter, class Leave>
HWY_INLINE void unpool_rows(const Pool2d& p, const UnpoolScratch& s, float* ring, int64_t first, int64_t last,
                            const Enter& enter, const Leave& leave) {
  WindowsAround rows(p.ho(), p.r, p.stride_h, p.pad_h, p.dil_h);
  HeldRows held{.rows = &rows, .ring = ring, .ring_rows = s.ring_rows, .entry = s.entry};
  int64_t next = 0;  // the first row of the plane of y that is not in the ring yet
  for (int64_t o = first; o < last; ++o) {
    const int64_t plane = o / p.h;
    rows.move_to(o % p.h);
    if (o % p.h == 0) next = 0;
    for (next = std::max(next, rows.first()); next < rows.end(); ++next)
      enter(plane * p.ho() + next, next, ring + next % s.ring_rows * s.entry);
    held.find();
    leave(o, held);
  }
}

// Fills a comb of windows of `taps`: element k of a tooth is the sum of passed(tooth, k, j) over the outputs j of which
// it is a tap.
template <class Passed>
HWY_INLINE void add_taps(const Comb& c, int64_t taps, float* combed, const Passed& passed) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t tooth = 0; tooth < c.stride; ++tooth) {
    const Comb::TapsOfTooth of = c.taps_of(tooth, taps);
    const int64_t length = ceil_div(c.width + c.pad - tooth, c.stride);
    for (int64_t k = 0; k < length; k += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t i = 0, j = k - of.behind; i < of.count; ++i, j -= of.apart) sum = hn::Add(sum, passed(tooth, k, j));
      hn::StoreU(sum, d, combed + tooth * c.step + k);
    }
  }
}

// The pixels of a window that lie in its image.
struct WindowPixels {
  int64_t first;                        // counted through the pixels of its image
  int64_t rows, columns, down, across;  // down, across: from one to the next, in pixels
  // f(pixel) for each, row by row.
  template <class F>
  HWY_INLINE void each(const F& f) const {
    for (int64_t a = 0, row = first; a < rows; ++a, row += down)
      for (int64_t b = 0, pixel = row; b < columns; ++b, pixel += across) f(pixel);
  }
};

// nhwc forward: rows [first, last) of y, counted through all images.
//   reduce<kVectors>(window, image, i, j, c, left)   makes channels [c, c + left) of the pixel (i, j) of y: kVectors
//                                                    whole vectors, or with kVectors = 1 at most one
template <class Reduce>
HWY_INLINE void pool_pixels(const Pool2d& p, int64_t first, int64_t last, const Reduce& reduce) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  for (int64_t o = first; o < last; ++o) {
    const int64_t image = o / ho, i = o % ho, top = i * p.stride_h - p.pad_h;
    const TapsInside u(top, p.h, p.r, p.dil_h);
    for (int64_t j = 0; j < wo; ++j) {
      const int64_t left = j * p.stride_w - p.pad_w;
      const TapsInside v(left, p.w, p.s, p.dil_w);
      const WindowPixels window{.first = (top + u.first * p.dil_h) * p.w + left + v.first * p.dil_w,
                                .rows = u.last - u.first,
                                .columns = v.last - v.first,
                                .down = p.dil_h * p.w,
                                .across = p.dil_w};
      int64_t c = 0;
      for (; c + 4 * lanes <= depth; c += 4 * lanes) reduce.template operator()<4>(window, image, i, j, c, 4 * lanes);
      for (; c + 2 * lanes <= depth; c += 2 * lanes) reduce.template operator()<2>(window, image, i, j, c, 2 * lanes);
      for (; c < depth; c += lanes) reduce.template operator()<1>(window, image, i, j, c, std::min(lanes, depth - c));
    }
  }
}

// nhwc backward: rows [first, last) of dx, counted through all images. Each pixel of dx adds, in registers, what the
// windows around it pass on.
//   add<kVectors>(sum, image, i, j, position, c, left)   adds to `sum`, channels [c, c + left), what the pixel (i, j)
//                                                        of y passes to the pixel `position` of its plane: kVectors
//                                                        whole vectors, or with kVectors = 1 at most one
// kAlike: a pixel of y passes the same to every pixel of its window.
template <bool kStream, bool kAlike, class T, class Add>
HWY_INLINE void unpool_pixels(const Pool2d& p, T* dx, int64_t first, int64_t last, const Add& add) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t depth = p.depth();
  WindowsAround rows(p.ho(), p.r, p.stride_h, p.pad_h, p.dil_h);
  for (int64_t o = first; o < last; ++o) {
    const int64_t image = o / p.h, row = o % p.h;
    rows.move_to(row);
    WindowsAround columns(p.wo(), p.s, p.stride_w, p.pad_w, p.dil_w);
    for (int64_t q = 0, end; q < p.w; q = end) {
      columns.move_to(q);
      end = std::min(p.w, columns.next());
      // Channels [c, c + left) of the pixels [q, end), which lie in the same windows.
      const auto block = [&]<int kVectors>(int64_t c, int64_t left) HWY_ATTR {
        hn::Vec<decltype(d)> sum[kVectors];
        for (int64_t pixel = q; pixel < end; ++pixel) {
          if (pixel == q || !kAlike) {
#pragma GCC unroll 4
            for (int k = 0; k < kVectors; ++k) sum[k] = hn::Zero(d);
            for (int64_t i = rows.first(); i < rows.end(); ++i) {
              if (!rows.holds(i)) continue;
              for (int64_t j = columns.first(); j < columns.end(); ++j)
                if (columns.holds(j)) add.template operator()<kVectors>(sum, image, i, j, row * p.w + pixel, c, left);
            }
          }
          T* to = dx + (o * p.w + pixel) * depth + c;
          if (left < lanes) {
            store_f32_as(d, sum[0], to, left);
            continue;
          }
#pragma GCC unroll 4
          for (int k = 0; k < kVectors; ++k) stream_store<kStream>(d, sum[k], to + k * lanes);
        }
      };
      int64_t c = 0;
      for (; c + 4 * lanes <= depth; c += 4 * lanes) block.template operator()<4>(c, 4 * lanes);
      for (; c + 2 * lanes <= depth; c += 2 * lanes) block.template operator()<2>(c, 2 * lanes);
      for (; c < depth; c += lanes) block.template operator()<1>(c, std::min(lanes, depth - c));
    }
  }
}

// Whether all vectors of channels of a tensor whose first element is `to` are whole and aligned, so that they can go
// past the caches.
template <class T>
HWY_INLINE bool pixels_are_aligned(const Pool2d& p, const T* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  return p.depth() % lanes == 0 && reinterpret_cast<uintptr_t>(to) % (static_cast<size_t>(lanes) * sizeof(T)) == 0;
}

// Stores min(left, lanes) channels of a pixel. kStream: pixels_are_aligned().
template <bool kStream, class D, class T>
HWY_INLINE void store_pixel(D d, hn::Vec<D> v, T* to, int64_t left) {
  if constexpr (kStream)
    stream_store<true>(d, v, to);
  else
    store_f32_as(d, v, to, left);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
