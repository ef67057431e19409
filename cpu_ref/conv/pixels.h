// SPDX-License-Identifier: Apache-2.0
// The images and filters of a convolution as operands of the matrix engine (gemm/engine.h). The engine packs them
// through an index map, so no im2col matrix is ever stored. conv2d_tuned.cpp and the two conv2d_backward_*_tuned.cpp
// choose which classes make up their product; start reading at Gather.
#pragma once
#include <vector>

#include "cpu_ref/gemm/engine.h"
#include "ops/conv/conv2d.h"

namespace duet::engine {

// Which values of an image each pixel of a result reads: pixel (i, j), under tap (r, s), reads row i * stride_h +
// down[r] and column j * stride_w + across[s]. Outside the image there are zeros.
struct Gather {
  DType dtype = DType::f32;
  bool channels_last = false;
  int64_t images = 0, channels = 0, h = 0, w = 0;  // channels: of an image, over all groups
  int64_t depth = 0;                               // channels that are read: those of one group
  int64_t ho = 0, wo = 0;                          // pixels of the result
  int64_t stride_h = 1, stride_w = 1;
  std::vector<int64_t> down, across;

  static Gather forward(const Conv2d& p);  // what y reads of x
  int64_t taps() const { return static_cast<int64_t>(down.size() * across.size()); }
  int64_t k() const { return depth * taps(); }
  bool has_pairs() const { return channels_last && depth % 2 == 0; }  // of channels, side by side in memory
  // nhwc: how many taps, from this one on, read pixels side by side, so that their channels are one run of memory.
  int64_t side_by_side(int64_t tap) const {
    auto s = static_cast<size_t>(tap) % across.size();
    int64_t count = 1;
    for (; depth == channels && s + 1 < across.size() && across[s + 1] == across[s] + 1; ++s) ++count;
    return count;
  }
};

// A pixel of the result of g, by its number over all images.
struct ResultPixel {
  ResultPixel(const Gather& g, int64_t line)
      : image(line / g.wo / g.ho), i(line / g.wo % g.ho), j(line % g.wo), height_(g.ho), width_(g.wo) {}
  void next() {
    if (++j < width_) return;
    j = 0;
    if (++i < height_) return;
    i = 0;
    ++image;
  }
  int64_t image, i, j;

 private:
  int64_t height_, width_;
};

// Lines are the pixels of the result, over all images. The k values of a line are what the pixel reads, in the order
// (channel, tap) for nchw and (tap, channel) for nhwc.
class Pixels final : public Operand {
 public:
  // x: the first channel of the group in the first image (nchw: its plane; nhwc: its first pixel).
  Pixels(const Gather& gather, const void* x) : g_(&gather), x_(static_cast<const char*>(x)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;
  // nhwc, with an even number of channels: each tap has whole pairs.
  void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                  float* to) const override;

 private:
  void pack_nhwc(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, bool pairs, float* to) const;
  const Gather* g_;
  const char* x_;
};

// The same matrix transposed, for nhwc only: lines are (tap, channel), and the k values of a line are the pixels of all
// images.
class Inputs final : public Operand {
 public:
  Inputs(const Gather& gather, const void* x) : g_(&gather), x_(static_cast<const char*>(x)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;
  void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                  float* to) const override;

 private:
  const Gather* g_;
  const char* x_;
};

// Some taps of a filter, for the gradient of the input. Lines are input channels. The k values of a line are in the
// order (output channel, tap) for nchw and (tap, output channel) for nhwc.
class TransposedFilter final : public Operand {
 public:
  // filter: that of the group. taps: which of its r * s, in the order of the Gather whose values they are multiplied
  // by.
  TransposedFilter(const Conv2d& p, const std::vector<int64_t>& taps, const void* filter)
      : p_(&p), taps_(&taps), filter_(static_cast<const char*>(filter)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;
  // nhwc, with an even number of output channels.
  void pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                  float* to) const override;

 private:
  const Conv2d* p_;
  const std::vector<int64_t>* taps_;
  const char* filter_;
};

// Copies a part of one plane of an image, as f32, with zeros where it reaches beyond the image:
// to[i * step + j] = x[row0 + i, column0 + j * stride] for i < rows and j < columns.
struct Plane {
  const void* x;
  DType dtype;
  int64_t h, w, row0, column0, rows, columns, step;
  float* to;
  int64_t stride = 1;
};
void copy_plane(const Plane& plane);

// col2im for stride 1: images (h, w) of dx from columns (nchw: channel, tap, image, ho, wo; nhwc: image, ho, wo, tap,
// channel). Each is the sum over its taps (r, s) of images of columns, moved down[r] rows and across[s] columns.
struct Columns {
  static constexpr int64_t kMaxTapsAcross = 32;
  const float* columns;
  int64_t channels, tap_step, images;  // tap_step: nchw: elements from one tap to the next
  int64_t ho, wo, h, w;
  const std::vector<int64_t>&down, &across;
  DType dtype;
  void* to;
  int64_t image_step;      // of `to`; nchw: where the channels of an image are dense
  int64_t pixel_step = 0;  // nhwc: of `to`; 0: nchw
};
void add_taps(const Columns& columns);

}  // namespace duet::engine
