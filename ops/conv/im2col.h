// SPDX-License-Identifier: Apache-2.0
// Writes the pixels under each tap of a convolution as a row of a matrix, so that the convolution of an image is the
// product of the filter (k, c r s) with that matrix (Chellapilla et al., 2006).
//   x: (n, c, h, w); col: (n, c r s, ho wo); row-major, dense; they do not overlap. Pixels outside x are 0.
// ho = (h + 2 pad_h - dil_h (r - 1) - 1) / stride_h + 1 where the filter fits, else 0; wo alike.
#pragma once
#include <string>

#include "ops/conv/conv2d.h"

namespace duet {

struct Im2col {
  static constexpr const char* name = "im2col";
  static constexpr const char* formula =
      "col[n, (c,r,s), (i,j)] = x[n, c, i*stride_h - pad_h + r*dil_h, j*stride_w - pad_w + s*dil_w], 0 outside x";
  static constexpr Slot x = input(0, "x"), col = output(1, "col");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0, c = 0, h = 0, w = 0, r = 0, s = 0;
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and col");
    field("n", n, "images");
    field("c", c, "channels of x");
    field("h", h, "height of x");
    field("w", w, "width of x");
    field("r", r, "height of the filter");
    field("s", s, "width of the filter");
    field.option("pad_h", pad_h, "rows of zeros above and below x");
    field.option("pad_w", pad_w, "columns of zeros left and right of x");
    field.option("stride_h", stride_h, "rows of x from one output to the next");
    field.option("stride_w", stride_w, "columns of x from one output to the next");
    field.option("dil_h", dil_h, "rows of x from one tap to the next");
    field.option("dil_w", dil_w, "columns of x from one tap to the next");
  }
  void infer(Shapes shapes) {  // r and s are given
    const auto X = shapes[x];
    n = X[0];
    c = X[1];
    h = X[2];
    w = X[3];
  }
  Conv2d convolution() const {
    return {.n = n,
            .c = c,
            .h = h,
            .w = w,
            .k = 1,
            .r = r,
            .s = s,
            .pad_h = pad_h,
            .pad_w = pad_w,
            .stride_h = stride_h,
            .stride_w = stride_w,
            .dil_h = dil_h,
            .dil_w = dil_w,
            .dtype = dtype};
  }
  std::string invalid() const { return convolution().invalid(); }
  int64_t ho() const { return convolution().ho(); }
  int64_t wo() const { return convolution().wo(); }
  int64_t rows() const { return n * c * r * s; }  // of col, in all images
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n, c, h, w}), col.of(dtype, {n, c * r * s, ho() * wo()})};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }                       // elements move bit for bit
  int64_t slices() const { return rows() * ho(); }                 // a row of output pixels under one tap
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/conv/im2col.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one tap", "n:1 c:1 h:1 w:1 r:1 s:1"},
        {"no image", "n:0 c:3 h:7 w:11 r:3 s:3"},
        {"no channel", "n:1 c:0 h:3 w:3 r:3 s:3"},
        {"the filter does not fit", "n:1 c:3 h:3 w:3 r:5 s:3"},
        {"nothing square", "n:2 c:3 h:7 w:11 r:5 s:3"},
        {"pad in one axis", "n:1 c:3 h:7 w:11 r:3 s:3 pad_w:2"},
        {"pad over the filter", "n:1 c:2 h:3 w:4 r:3 s:3 pad_h:4 pad_w:3"},
        {"stride 2 leaves a remainder", "n:2 c:3 h:8 w:11 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:3"},
        {"strides and dilations", "n:1 c:3 h:13 w:17 r:3 s:3 pad_h:2 pad_w:2 stride_h:2 stride_w:3 dil_h:2 dil_w:2"},
        {"whole packs of pixels", "n:1 c:3 h:16 w:16 r:3 s:3 pad_h:1 pad_w:1"},
        {"whole packs over the ends of rows", "n:2 c:2 h:4 w:6 r:3 s:3 pad_h:1 pad_w:1"},
        {"1x1: a copy", "n:2 c:5 h:7 w:9 r:1 s:1"},
        {"1x1, stride 2", "n:1 c:5 h:7 w:37 r:1 s:1 stride_h:2 stride_w:2"},
        {"long rows", "n:1 c:1 h:3 w:1031 r:3 s:3 pad_h:1 pad_w:1"},
        {"edge values, infinities and NaN", "n:1 c:3 h:9 w:11 r:3 s:3 pad_h:1 pad_w:1 x=edges+inf+nan"},
    };
    const Cases standard{
        {"ResNet-50 conv2_x, 64@56 3x3, batch 8", "n:8 c:64 h:56 w:56 r:3 s:3 pad_h:1 pad_w:1"},
        {"ResNet-50 conv1, 3@224 7x7 stride 2, batch 8",
         "n:8 c:3 h:224 w:224 r:7 s:7 pad_h:3 pad_w:3 stride_h:2 stride_w:2"},
        {"ResNet-50 conv5_x, 512@7 3x3, batch 32", "n:32 c:512 h:7 w:7 r:3 s:3 pad_h:1 pad_w:1"},
        {"MNIST CNN, 32@13 3x3, batch 64", "n:64 c:32 h:13 w:13 r:3 s:3"},
    };
    const Cases more{
        {"VGG-19 conv1_2, 64@224 3x3, batch 4", "n:4 c:64 h:224 w:224 r:3 s:3 pad_h:1 pad_w:1"},
        {"ResNet-50 conv3_1, 128@56 3x3 stride 2, batch 32",
         "n:32 c:128 h:56 w:56 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
    };
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

// The taps of one image of a convolution.
inline Im2col im2col_of_image(const Conv2d& p) {
  return {.n = 1,
          .c = p.c,
          .h = p.h,
          .w = p.w,
          .r = p.r,
          .s = p.s,
          .pad_h = p.pad_h,
          .pad_w = p.pad_w,
          .stride_h = p.stride_h,
          .stride_w = p.stride_w,
          .dil_h = p.dil_h,
          .dil_w = p.dil_w,
          .dtype = p.dtype};
}
// Whether an image is its own matrix: one tap without stride or padding.
inline bool is_its_own_im2col(const Conv2d& p) {
  return p.r == 1 && p.s == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0;
}

}  // namespace duet
