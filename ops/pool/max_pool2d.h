// SPDX-License-Identifier: Apache-2.0
// The largest element of each window, and its gradient. Images and windows are those of ops/pool/pool2d.h.
//   index: i32, the position of the largest element in its plane of x, row * w + column; the lowest of several. A
//   window without a pixel gives -inf and -1. indexed = 0, for inference, leaves the index out.
//   What NaN gives is undefined, because libraries differ.
//   Backward: dx is overwritten; an index outside its window passes no gradient on. Sums are formed in f32 or better.
#pragma once
#include <functional>

#include "ops/pool/pool2d.h"
#include "ops/pool/pool2d_cases.h"

namespace duet {

struct MaxPool2d : Pool2d {
  static constexpr const char* name = "max_pool2d";
  static constexpr const char* formula =
      "y[n,c,i,j] = max_{u,v} x[n, c, i*stride_h - pad_h + u*dil_h, j*stride_w - pad_w + v*dil_w],  "
      "index[n,c,i,j] = the first row*w + column of x that reaches it";
  static constexpr Slot x = input(0, "x"), y = output(1, "y"), index = output(2, "index");
  static constexpr bool exact_on_integers = true;

  bool indexed = true;

  void attributes(auto&& field) {
    Pool2d::attributes(field);
    field.option("indexed", indexed, "index is written too");
  }
  void infer(Shapes shapes) { infer_x(shapes[x]); }
  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> all{x.of(dtype, x_shape()), y.of(dtype, y_shape())};
    if (indexed) all.push_back(index.of(DType::i32, y_shape()));
    return all;
  }
  double flops() const { return 0; }                                                               // comparisons
  Tolerance tolerance(int slot) const { return {.abs = slot == y.index ? underflow(dtype) : 0}; }  // nothing is rounded
  int64_t slices() const { return images() * ho(); }                                               // a row of y
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/max_pool2d.cpp

  static Cases cases(Scale scale) {
    if (scale == Scale::sweep)
      return sweep("n", 1, 128, "c:64 h:112 w:112 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2", 2);
    if (scale != Scale::test) return concat({pool2d_cases(scale), with("indexed:0", pool2d_cases(scale))});
    const Cases odd{
        {"all alike: the index is the first", "n:2 c:3 h:8 w:37 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 x=0"},
        {"negative infinities: the index is the first", "n:2 c:3 h:8 w:37 r:3 s:3 pad_h:1 pad_w:1 x=-inf"},
        {"one infinity, the last", "n:2 c:33 h:7 w:11 r:3 s:3 pad_h:1 pad_w:1 x=last:inf"},
    };
    return concat({pool2d_cases(scale), with("dtype:f32 indexed:0", having("r:3", pool2d_shapes(scale))),
                   across(kFloatTypes, across(kLayouts, odd))});
  }
};

struct MaxPool2dBackward : Pool2d {
  static constexpr const char* name = "max_pool2d_backward";
  static constexpr const char* formula =
      "dx[n,c,p,q] = sum_{i,j} dy[n,c,i,j] [index[n,c,i,j] = p*w + q],  over the windows that hold (p, q)";
  static constexpr Slot index = input(0, "index"), dy = input(1, "dy"), dx = output(2, "dx");
  static constexpr bool exact_on_integers = true;

  void infer(Shapes shapes) { infer_y(shapes[dy]); }  // h and w are given
  std::vector<TensorSpec> tensors() const {
    return {index.of(DType::i32, y_shape()), dy.of(dtype, y_shape()), dx.of(dtype, x_shape())};
  }
  double flops() const { return static_cast<double>(y_elements()); }
  Tolerance tolerance() const {  // additions, then rounded to dtype
    return {.rel = unit_roundoff(dtype),
            .abs_sum = gamma(static_cast<double>(overlap()), unit_roundoff(DType::f32)),
            .abs = underflow(dtype)};
  }
  // As a forward pass leaves it: a pixel of the window, and -1 where the window has none.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != index.index) return {};
    return [p = *this](int64_t element, uint32_t bits) {
      const int64_t place = element / p.depth() % (p.ho() * p.wo());
      int64_t pixels = 0, at = -1;
      p.in_window(place / p.wo(), place % p.wo(), [&](int64_t) { ++pixels; });
      int64_t skip = pixels * bits >> 32;
      p.in_window(place / p.wo(), place % p.wo(), [&](int64_t pixel) {
        if (skip-- == 0) at = pixel;
      });
      return static_cast<double>(at);
    };
  }
  int64_t slices() const { return images() * h; }                  // a row of dx
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/pool/max_pool2d.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"indices of other windows pass nothing on", "n:2 c:3 h:8 w:37 r:3 s:3 pad_h:1 pad_w:1 index=below:296"},
        {"nor where windows do not overlap", "n:2 c:8 h:7 w:37 r:2 s:2 stride_h:2 stride_w:2 index=below:259"},
        {"windows that do not overlap, two columns left over", "n:2 c:3 h:7 w:66 r:2 s:4 stride_h:2 stride_w:4"},
    };
    return concat({pool2d_cases(scale), by_scale(scale, across(kFloatTypes, across(kLayouts, odd)), {})});
  }
};

}  // namespace duet
