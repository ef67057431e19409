// SPDX-License-Identifier: Apache-2.0
// How pooling along a row of an nchw plane sees the row: element q lies in tooth (q + pad) % stride at (q + pad) / stride.
// Then what one tap takes for outputs j, j + 1, ... are neighbours, whatever the stride.
#pragma once
#include <algorithm>

#include "ops/pool/pool2d.h"

namespace duet {

struct Comb {
  static constexpr int64_t kMostLanes = 16;  // of f32 in a vector; loads may run over the end of a tooth by one vector

  explicit Comb(const Pool2d& p)
      : width(p.w), pad(p.pad_w), stride(p.stride_w), dil(p.dil_w), outputs(row_floats(p.wo())) {
    const int64_t read = outputs + p.dil_w * (p.s - 1) / stride + 1, written = (width + pad) / stride + 1;
    step = row_floats(std::max(read, written));
  }
  // Whole vectors and cache lines.
  static int64_t row_floats(int64_t n) { return ceil_div(n, kMostLanes) * kMostLanes; }

  int64_t floats() const { return stride * step; }
  int64_t at(int64_t q) const { return (q + pad) % stride * step + (q + pad) / stride; }

  // Where the taps of output 0 lie, one after the other, without a division.
  class Tap {
   public:
    explicit Tap(const Comb& c) : c_(&c), hop_tooth_(c.dil % c.stride), hop_(hop_tooth_ * c.step + c.dil / c.stride) {}
    int64_t offset() const { return offset_; }
    void next() {
      tooth_ += hop_tooth_;
      offset_ += hop_;
      if (tooth_ >= c_->stride) {
        tooth_ -= c_->stride;
        offset_ += 1 - c_->stride * c_->step;
      }
    }

   private:
    const Comb* c_;
    int64_t hop_tooth_, hop_, tooth_ = 0, offset_ = 0;
  };

  int64_t width, pad, stride, dil;
  int64_t outputs;   // of a row, in whole vectors
  int64_t step = 0;  // floats of a tooth
};

// The taps [first, last) of a window at `start` that lie in [0, size).
struct TapsInside {
  TapsInside(int64_t start, int64_t size, int64_t taps, int64_t dil)
      : first(start < 0 ? ceil_div(-start, dil) : 0),
        last(std::max(first, std::min(taps, start < size ? ceil_div(size - start, dil) : 0))) {}
  int64_t first, last;
};

// Floats of scratch for a thread. Rows of nchw forward: a row of x, plain and combed, and a ring of rows that were reduced
// along their width, of value and position; backward: a row of dx, combed and plain. nhwc: the channels of a pixel.
struct PoolScratch {
  explicit PoolScratch(const Pool2d& p)
      : comb(p),
        plain(Comb::row_floats(p.w)),
        ring_rows(std::max<int64_t>(1, std::min(p.h, p.dil_h * (p.r - 1) + 1))),
        entry(2 * comb.outputs),
        floats(std::max(comb.floats() + plain + ring_rows * entry, Comb::row_floats(p.depth()))) {}
  Comb comb;
  int64_t plain, ring_rows, entry, floats;
};

}  // namespace duet
