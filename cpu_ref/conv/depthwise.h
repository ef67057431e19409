// SPDX-License-Identifier: Apache-2.0
// Convolutions of one channel at a time (groups = c = k), nchw: there is nothing to multiply as matrices, memory is the
// limit. A plane is copied with its border of zeros and, with a stride, its columns sorted by remainder, so that every
// tap reads whole vectors; then each result is a sum over taps in registers.
#pragma once
#include <vector>

#include "cpu_ref/conv/pixels.h"

namespace duet::engine {

inline bool is_depthwise(const Conv2d& p) {
  return p.layout == Layout::nchw && p.groups > 1 && p.group_c() == 1 && p.group_k() == 1 && p.r * p.s > 0;
}

class Depthwise {
 public:
  // gather: which values of its planes (h, w) each of the (ho, wo) results meets. tap: which elements of a channel's
  // filter they meet it with. places: of the results in their plane.
  Depthwise(Gather gather, std::vector<int64_t> tap, const Places& places);
  int64_t floats() const { return rows_ * row_step_ + slack_; }  // of working memory

  // One plane of results: y[i, j] = sum over taps of filter[tap] x[what (i, j) meets].
  void convolve(const void* x, const void* filter, void* y, float* memory) const;
  // The filter's gradient of one channel: dw[tap] = sum over images, i and j of dy[i, j] x[what (i, j) meets]. x and dy:
  // the channel in the first image; image_x, image_y: elements from one image to the next.
  void gradient(const void* x, const void* dy, void* dw, int64_t images, int64_t image_x, int64_t image_y,
                float* memory) const;

  struct View {  // what the compiled code sees
    DType dtype;
    int64_t ho, wo, row_step;  // row_step: from one row of results to the next in the copy
    const int64_t *offset, *tap;
    int64_t taps;
    Places places;
  };

 private:
  void copy(const void* x, float* memory) const;
  View view() const;
  Gather g_;
  std::vector<int64_t> tap_, offset_;  // of a tap: in the filter; in the copy
  Places places_;
  int64_t row0_, column0_, rows_, width_, row_step_, slack_;  // of the copy; width_: of one remainder's columns
};

}  // namespace duet::engine
