// SPDX-License-Identifier: Apache-2.0
// How pooling with vectors lays out a row of an nchw plane: as a comb. Element q of the row goes to tooth (q + pad) %
// stride, at position (q + pad) / stride of the tooth. Then one tap reads, for outputs j, j + 1, ..., neighbouring
// elements of one tooth, whatever the stride. rows-inl.h fills and empties combs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "ops/pool/pool2d.h"

namespace duet {

struct Comb {
  static constexpr int64_t kMaxLanes = 16;  // of f32 in a vector; a load may reach one vector beyond the end of a tooth

  explicit Comb(const Pool2d& p)
      : width(p.w), pad(p.pad_w), stride(p.stride_w), dil(p.dil_w), outputs(row_floats(p.wo())) {
    // Floats that taps read of a tooth, and floats that a row writes to it.
    const int64_t read = outputs + p.dil_w * (p.s - 1) / stride + 1, written = (width + pad) / stride + 1;
    step = row_floats(std::max(read, written));
  }
  // n rounded up to whole vectors and cache lines.
  static int64_t row_floats(int64_t n) { return ceil_div(n, kMaxLanes) * kMaxLanes; }

  int64_t floats() const { return stride * step; }
  // Where element q of the row lies.
  int64_t at(int64_t q) const { return (q + pad) % stride * step + (q + pad) / stride; }

  // Walks over the taps of a window: offset() is where the current tap finds its element for output 0. The step to the
  // next tap (dil elements of the row) takes no division.
  class Tap {
   public:
    explicit Tap(const Comb& c)
        : c_(&c), tooth_step_(c.dil % c.stride), offset_step_(tooth_step_ * c.step + c.dil / c.stride) {}
    int64_t offset() const { return offset_; }
    int64_t tooth() const { return tooth_; }
    void next() {
      tooth_ += tooth_step_;
      offset_ += offset_step_;
      if (tooth_ >= c_->stride) {
        tooth_ -= c_->stride;
        offset_ += 1 - c_->stride * c_->step;
      }
    }

   private:
    const Comb* c_;
    int64_t tooth_step_, offset_step_, tooth_ = 0, offset_ = 0;
  };

  // The taps that lie on a tooth: element k of the tooth is the tap of output k - behind, where `behind` begins as said
  // and grows by `apart`, `count` times in all.
  struct TapsOfTooth {
    int64_t behind, apart, count;
  };
  TapsOfTooth taps_of(int64_t tooth, int64_t taps) const {
    int64_t v = std::min(tooth, taps), behind = 0;  // where taps are neighbours
    if (dil > 1) {
      Tap tap(*this);
      for (v = 0; v < taps && tap.tooth() != tooth; ++v) tap.next();
      behind = tap.offset() - tooth * step;
    }
    return {behind, dil / common, v < taps ? ceil_div(taps - v, stride / common) : 0};
  }

  int64_t width, pad, stride, dil;
  int64_t common = std::gcd(stride, dil);
  int64_t outputs;   // outputs of a row, rounded up to whole vectors
  int64_t step = 0;  // floats from one tooth to the next
};

// The taps [first, last) of a window that starts at `start`: those that lie in [0, size).
struct TapsInside {
  TapsInside(int64_t start, int64_t size, int64_t taps, int64_t dil)
      : first(start < 0 ? ceil_div(-start, dil) : 0),
        last(std::max(first, start + (taps - 1) * dil < size ? taps
                             : start < size                  ? ceil_div(size - start, dil)
                                                             : 0)) {}
  int64_t first, last;
};

// The windows along one axis that hold the element `at`; move_to() is called with elements in ascending order, or with
// 0 to begin anew.
class WindowsAround {
 public:
  WindowsAround(int64_t outputs, int64_t taps, int64_t stride, int64_t pad, int64_t dil)
      : outputs_(outputs), reach_(dil * (taps - 1)), stride_(stride), pad_(pad), dil_(dil) {}
  void move_to(int64_t at) {
    if (at == 0) first_ = end_ = 0;
    from_start_ = at + pad_;
    while (end_ < outputs_ && end_ * stride_ <= from_start_) ++end_;
    while (first_ < end_ && first_ * stride_ + reach_ < from_start_) ++first_;
  }
  // These are first() to end() - 1, as far as holds() is true.
  int64_t first() const { return first_; }
  int64_t end() const { return end_; }
  bool holds(int64_t i) const { return dil_ == 1 || (from_start_ - i * stride_) % dil_ == 0; }
  // The first element behind it that may lie in other windows.
  int64_t next() const {
    if (dil_ != 1) return from_start_ - pad_ + 1;
    int64_t change = std::numeric_limits<int64_t>::max();
    if (end_ < outputs_) change = end_ * stride_ - pad_;
    if (first_ < end_) change = std::min(change, first_ * stride_ + reach_ - pad_ + 1);
    return change;
  }

 private:
  int64_t outputs_, reach_, stride_, pad_, dil_;
  int64_t first_ = 0, end_ = 0;
  int64_t from_start_ = 0;  // the element, counted from the first pixel of the first window
};

// Scratch memory of a thread, in floats. nchw forward: a row of x, combed and plain, then a ring of rows that have been
// reduced along their width, each of values and of positions.
struct PoolScratch {
  explicit PoolScratch(const Pool2d& p)
      : comb(p),
        plain(Comb::row_floats(p.w)),
        ring_rows(std::max<int64_t>(1, std::min(p.h, p.dil_h * (p.r - 1) + 1))),
        entry(2 * comb.outputs),
        floats(comb.floats() + plain + ring_rows * entry) {}
  Comb comb;
  int64_t plain, ring_rows, entry, floats;
};

// The same for nchw backward: a row of y with a margin on both sides, for taps that reach beyond it; a row of dx,
// combed and plain; and a ring of entries, as many as rows of y have windows around one pixel, each of two rows of y or
// one row of dx.
struct UnpoolScratch {
  explicit UnpoolScratch(const Pool2d& p)
      : comb(p),
        margin(Comb::row_floats(p.dil_w * (p.s - 1) / p.stride_w + 1)),
        row(margin + std::max(comb.outputs, comb.step) + Comb::kMaxLanes),
        plain(Comb::row_floats(p.w) + Comb::kMaxLanes),
        entry(std::max(2 * row, plain)),
        ring_rows(std::max<int64_t>(1, std::min(p.ho(), p.dil_h * (p.r - 1) / p.stride_h + 1))),
        floats(row + comb.floats() + plain + ring_rows * entry) {}
  Comb comb;
  int64_t margin, row, plain, entry, ring_rows, floats;
};

}  // namespace duet
