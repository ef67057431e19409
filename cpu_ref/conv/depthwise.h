// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions (groups = c = k) of nchw images, one channel at a time: forward, and both gradients. There is
// nothing to multiply as matrices, so memory is the limit. A plane is copied with its border of zeros and, with a
// stride, with its columns sorted by remainder, so that every tap reads whole vectors. Then each result is a sum over
// taps in registers. Used by the three conv2d_*_tuned.cpp; each plan makes a Depthwise, and each thread calls it for
// one channel after the other.
#pragma once
#include <vector>

#include "cpu_ref/conv/pixels.h"

namespace duet::engine {

inline bool is_depthwise(const Conv2d& p) {
  return p.layout == Layout::nchw && p.groups > 1 && p.group_c() == 1 && p.group_k() == 1 && p.r * p.s > 0;
}

class Depthwise {
 public:
  // gather: which values of a plane (h, w) each of the (ho, wo) results reads. tap: the elements of the channel's
  // filter that these values are multiplied by, in the same order. places: where the results lie in their plane.
  Depthwise(Gather gather, std::vector<int64_t> tap, const Places& places);
  int64_t floats() const { return rows_ * row_step_ + slack_; }  // of working memory

  // What is done to the sums of a plane: *bias, of the images' type, is added where there is one, then relu.
  struct Finish {
    const void* bias = nullptr;
    bool relu = false;
  };
  // One plane of results: y[i, j] = the sum over taps of filter[tap] times the value that (i, j) reads under the tap.
  void convolve(const void* x, const void* filter, void* y, float* memory, const Finish& finish) const;
  // The gradient of the filter of one channel: dw[tap] = the sum over images, i and j of dy[i, j] times the value of x
  // that (i, j) reads under the tap. x and dy: the channel in the first image. image_x, image_y: elements between
  // images.
  void gradient(const void* x, const void* dy, void* dw, int64_t images, int64_t image_x, int64_t image_y,
                float* memory) const;

  struct View {  // the same for the code that is compiled once per instruction set
    DType dtype;
    int64_t ho, wo, row_step;  // row_step: in the copy, from one row of results to the next
    const int64_t *offset, *tap;
    int64_t taps;
    Places places;
  };

 private:
  void copy(const void* x, float* memory) const;
  View view() const;
  Gather g_;
  std::vector<int64_t> tap_, offset_;  // where a tap lies in the filter, and what it reads in the copy
  Places places_;
  // Of the copy. width_: columns of one remainder; slack_: floats behind it, for the sums of gradient().
  int64_t row0_, column0_, rows_, width_, row_step_, slack_;
};

}  // namespace duet::engine
