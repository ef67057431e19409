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
#include "cpu_ref/pairs-inl.h"
#include "cpu_ref/pool/comb.h"
#include "cpu_ref/prefetch.h"

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

// Windows of three neighbours with stride 2, as ResNet pools: a row needs no comb, each of its taps is half of pairs.
HWY_INLINE bool takes_thirds(const Pool2d& p) { return p.s == 3 && p.stride_w == 2 && p.dil_w == 1 && p.pad_w <= 1; }
// Calls f(j, left, middle, right) with the taps of outputs [j, j + lanes) of a row. begin, end: of x. With a pad, the
// first output has no left tap, and in a row of odd length the last one has no right tap; without, there are all three.
template <class T, class F>
HWY_INLINE void each_third(const Pool2d& p, const T* row, const T* begin, const T* end, float outside, const F& f) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V none = hn::Set(d, outside);
  for (int64_t j = 0, wo = p.wo(); j < wo; j += lanes) {
    const T* const from = row + 2 * j;
    V even, odd, before, unused;
    load_pairs(d, from, end - from, even, odd);
    if (p.pad_w == 0) {
      V after;
      load_pairs(d, from + 2, end - from - 2, after, unused);
      f(j, even, odd, after);
      continue;
    }
    const int64_t left = p.w - 2 * j;  // pixels from here on
    if (left < 2 * lanes) odd = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(left / 2)), odd, none);
    if (from - begin >= 2) {
      load_pairs(d, from - 2, end - from + 2, unused, before);
    } else {  // before the first pixels of x there is nothing to load
      HWY_ALIGN float odds[1 + hn::MaxLanes(d)] = {};
      hn::StoreU(odd, d, odds + 1);
      before = hn::Load(d, odds);
    }
    f(j, j == 0 ? hn::IfThenElse(hn::FirstN(d, 1), none, before) : before, even, odd);
  }
}

// Rows of x that a row of y is the first to read; none if windows lie apart.
HWY_INLINE int64_t fresh_rows(const Pool2d& p) {
  const bool apart = p.stride_h > p.dil_h * (p.r - 1) + 1 || p.stride_w > p.dil_w * (p.s - 1) + 1;
  return apart ? 0 : std::min(p.h, p.stride_h);
}

// Forward: rows [first, last) of y, counted through all planes. Each row of x is reduced along its width once, into an
// entry of a ring that holds as many rows as a window spans:
//   along(row, entry, j, each_tap)       reduces the taps of outputs j, j + 1, ... of the row of x to a vector of an
//                                        entry of the ring; each_tap(f) calls f with a vector of each tap, in order
//   down(o, i, each_entry)               reduces the entries of a window to row o of y, which is row i of its plane;
//                                        each_entry(f) calls f with each, from the top
// outside: the value of pixels outside the plane. far: x is beyond the caches.
template <class T, class Along, class Down>
HWY_INLINE void pool_rows(const Pool2d& p, const T* x, int64_t first, int64_t last, bool far, float outside,
                          float* scratch, const Along& along, const Down& down) {
  const PoolScratch s(p);
  float *combed = scratch, *plain = combed + s.comb.floats(), *ring = plain + s.plain;
  const bool thirds = takes_thirds(p);
  if (!thirds) std::fill_n(combed, s.comb.floats(), outside);
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Comb::Tap first_tap(s.comb);
  const int64_t ho = p.ho(), wo = p.wo(), extent = p.dil_h * (p.r - 1) + 1;
  const int64_t fresh = far ? fresh_rows(p) * p.w : 0;  // elements of x that a row of y is the first to read
  int64_t next = 0;                                     // the first row of the plane that is not in the ring yet
  for (int64_t o = first; o < last; ++o) {
    const int64_t plane = o / ho, i = o % ho, top = i * p.stride_h - p.pad_h;
    if (i == 0) next = 0;
    // Rows of x that this row of y is the first to need.
    const int64_t end = std::min(p.h, top + extent);
    if (end > next) prefetch(x + (plane * p.h + end) * p.w + kPrefetchAhead, fresh);
    for (int64_t row = std::max({int64_t{0}, top, next}); row < end; ++row) {
      const T* const from = x + (plane * p.h + row) * p.w;
      float* const entry = ring + row % s.ring_rows * s.entry;
      if (thirds) {
        each_third(p, from, x, x + p.x_elements(), outside,
                   [&](int64_t j, auto left, auto middle, auto right) HWY_ATTR {
                     along(row, entry, j, [&](const auto& f) HWY_ATTR {
                       f(left);
                       f(middle);
                       f(right);
                     });
                   });
        continue;
      }
      comb_row(s.comb, from, plain, combed);
      for (int64_t j = 0; j < wo; j += lanes)
        along(row, entry, j, [&](const auto& f) HWY_ATTR {
          Comb::Tap tap = first_tap;
          for (int64_t v = 0; v < p.s; ++v, tap.next()) f(hn::LoadU(d, combed + tap.offset() + j));
        });
    }
    next = std::max(next, end);
    // Reduce down the window.
    const TapsInside u(top, p.h, p.r, p.dil_h);
    const int64_t rows = u.last - u.first, step = p.dil_h % s.ring_rows;
    const auto after = [&](int64_t slot) {
      return slot + step < s.ring_rows ? slot + step : slot + step - s.ring_rows;
    };
    const int64_t slot = (top + u.first * p.dil_h) % s.ring_rows;
    if (rows == 3) {  // without a loop: most windows of ResNet's pool
      const int64_t second = after(slot), third = after(second);
      down(o, i, [&, second, third](const auto& f) HWY_ATTR {
        f(ring + slot * s.entry);
        f(ring + second * s.entry);
        f(ring + third * s.entry);
      });
    } else {
      down(o, i, [&](const auto& f) HWY_ATTR {
        for (int64_t k = 0, at = slot; k < rows; ++k, at = after(at)) f(ring + at * s.entry);
      });
    }
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

// nhwc forward: rows [first, last) of y, counted through all images. far: x is beyond the caches.
//   reduce<kVectors>(window, image, i, j, c, left)   makes channels [c, c + left) of the pixel (i, j) of y: kVectors
//                                                    whole vectors, or with kVectors = 1 at most one
template <class T, class Reduce>
HWY_INLINE void pool_pixels(const Pool2d& p, const T* x, int64_t first, int64_t last, bool far, const Reduce& reduce) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const int64_t fresh = far ? fresh_rows(p) * std::min(p.w, p.stride_w) * depth : 0;  // as above, of a pixel of y
  for (int64_t o = first; o < last; ++o) {
    const int64_t image = o / ho, i = o % ho, top = i * p.stride_h - p.pad_h;
    const TapsInside u(top, p.h, p.r, p.dil_h);
    const int64_t below = top + p.dil_h * (p.r - 1) + 1;  // the row after the windows
    const int64_t asked = below > 0 && below < p.h ? fresh : 0;
    const T* const ahead = x + (image * p.h + below) * p.w * depth;
    for (int64_t j = 0; j < wo; ++j) {
      prefetch(ahead + j * fresh, asked);  // of the next row of y
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
