// SPDX-License-Identifier: Apache-2.0
// The sides of a convolution as operands of the matrix engine. Packing reads them through an index map, so that no
// im2col matrix is ever stored.
#pragma once
#include <vector>

#include "cpu_ref/gemm/engine.h"
#include "ops/conv/conv2d.h"

namespace duet::engine {

// Which values of an image each pixel of a result meets: pixel (i, j) under tap (r, s) is at row i * stride_h + down[r],
// column j * stride_w + across[s]; outside the image there are zeros.
struct Gather {
  DType dtype = DType::f32;
  bool channels_last = false;
  int64_t images = 0, channels = 0, h = 0, w = 0;  // channels: of all of an image
  int64_t depth = 0;                               // channels that are met: those of a group
  int64_t ho = 0, wo = 0;                          // pixels
  int64_t stride_h = 1, stride_w = 1;
  std::vector<int64_t> down, across;

  static Gather forward(const Conv2d& p);  // from x
  int64_t taps() const { return static_cast<int64_t>(down.size() * across.size()); }
  int64_t k() const { return depth * taps(); }
};

// A line is a pixel of all images, its k values are what it meets: nchw: (channel, tap), nhwc: (tap, channel).
class Pixels final : public Operand {
 public:
  // x: the group's first channel, in the first image (nchw: its plane; nhwc: its first pixel).
  Pixels(const Gather& gather, const void* x) : g_(&gather), x_(static_cast<const char*>(x)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  void pack_nhwc(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const;
  const Gather* g_;
  const char* x_;
};

// nhwc only: the same matrix the other way round. A line is (tap, channel), its k values are the pixels of all images.
class Inputs final : public Operand {
 public:
  Inputs(const Gather& gather, const void* x) : g_(&gather), x_(static_cast<const char*>(x)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  const Gather* g_;
  const char* x_;
};

// Some taps of a filter for the gradient of its input. A line is an input channel, its k values are nchw: (output
// channel, tap), nhwc: (tap, output channel).
class TurnedFilter final : public Operand {
 public:
  // filter: of the group. taps: which of its r * s, in the order of the Gather that they meet.
  TurnedFilter(const Conv2d& p, const std::vector<int64_t>& taps, const void* filter)
      : p_(&p), taps_(&taps), filter_(static_cast<const char*>(filter)) {}
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  const Conv2d* p_;
  const std::vector<int64_t>* taps_;
  const char* filter_;
};

// A part of one plane of an image in f32, with the zeros around it: to[i * step + j] = x[row0 + i, column0 + j * stride],
// 0 outside (h, w); i < rows, j < columns.
struct Plane {
  const void* x;
  DType dtype;
  int64_t h, w, row0, column0, rows, columns, step;
  float* to;
  int64_t stride = 1;
};
void copy_plane(const Plane& plane);

// Stride 1: planes (h, w) of dx from columns (channel, tap, image, ho, wo): each is the sum over its taps (r, s) of a
// plane moved down[r] rows and across[s] columns.
struct Columns {
  static constexpr int64_t kMostAcross = 32;
  const float* columns;
  int64_t channels, tap_step, images;  // tap_step: elements of columns from one tap to the next
  int64_t ho, wo, h, w;
  const std::vector<int64_t>&down, &across;
  DType dtype;
  void* to;
  int64_t image_step;  // of `to`; its channels are dense
};
void add_taps(const Columns& columns);

}  // namespace duet::engine
