// SPDX-License-Identifier: Apache-2.0
// The gradients of a two-dimensional convolution: dw and dx are the gradients of sum(dy y) with respect to the filter
// and the input; dx is also known as the transposed convolution. Shapes, layouts and attributes are those of conv2d.h;
// `conv` is the forward convolution. Outputs are overwritten and are no other tensor. Sums are formed in f32 or better.
// A sum without terms is 0: where no tap reads an element of x, its dx is 0.
// Index sets (Dumoulin and Visin, arXiv:1603.07285): x[p, q] is multiplied by w[r, s] for y[i, j] where p = i*stride_h
// - pad_h + r*dil_h and q = j*stride_w - pad_w + s*dil_w.
#pragma once
#include <optional>

#include "ops/conv/conv2d.h"

namespace duet {

struct Conv2dBackwardFilter {
  static constexpr const char* name = "conv2d_backward_filter";
  static constexpr const char* formula =
      "dw[k,c,r,s] = sum_{n,i,j} dy[n,k,i,j] * x[n, c, i*stride_h - pad_h + r*dil_h, j*stride_w - pad_w + s*dil_w]";
  static constexpr Slot x = input(0, "x"), dy = input(1, "dy"), dw = output(2, "dw");
  static constexpr bool exact_on_integers = true;

  Conv2d conv;

  void attributes(auto&& field) { conv.attributes(field); }
  void infer(Shapes s);  // the smallest filter that gives dy, unless the attributes give one
  std::string invalid() const { return conv.invalid(); }
  std::vector<TensorSpec> tensors() const {
    const auto of = conv.tensors();
    return {x.of(conv.dtype, of[0].shape), dy.of(conv.dtype, of[2].shape), dw.of(conv.dtype, of[1].shape)};
  }
  double flops() const { return conv.flops(); }
  // Of millions of terms, what is allowed to equal ones exceeds many times the errors of others: the reference looks.
  double terms() const { return 1.0 * conv.n * conv.ho() * conv.wo(); }
  Tolerance tolerance() const {
    return product_sum_tolerance(terms(), 0, conv.dtype, conv.math, conv.growth(), Terms::vary, kLongestChain);
  }
  std::optional<LinearAxis> linear_axis() const {
    return LinearAxis{"c", conv.group_c(), conv.groups, {{x, conv.channel_axis()}, {dw, conv.channel_axis()}}};
  }
  int64_t slices() const { return conv.k * conv.group_c() * conv.r; }  // one row of one filter's plane
  void reference(Inputs in, int64_t slice, Expect& expect) const;      // cpu_ref/conv/conv2d_backward.cpp
  static Cases cases(Scale scale) {
    const Cases blocks{
        {"sums over blocks of tiles, of which the last is not full", "n:7 c:9 h:21 w:25 k:10 r:3 s:3 pad_h:1 pad_w:1"},
        {"by im2col sums over blocks of images, on a small GPU", "n:40 c:68 h:2 w:2 k:68 r:1 s:1"},
        {"by im2col over blocks of images under several taps, on a small GPU",
         "n:6 c:8 h:19 w:19 k:4 r:3 s:3 pad_h:1 pad_w:1"},
        {"two rounds of two parts by Winograd, on a small GPU of nine multiprocessors",
         "n:4 c:1 h:36 w:36 k:4 r:3 s:3 pad_h:1 pad_w:1"}};
    const Cases for_winograd{
        {"pad over the filter, sums of 24 terms", "n:2 c:2 h:3 w:4 k:3 r:3 s:3 pad_h:4 pad_w:3"},
        {"a row that border taps do not read", "n:2 c:3 h:1 w:19 k:5 r:3 s:3 pad_h:1 pad_w:1"},
        {"sums of 16 terms", "n:16 c:2 h:2 w:2 k:3 r:3 s:3 pad_h:1 pad_w:1"},
    };
    const Cases shared = conv2d_cases(scale);
    return scale == Scale::test ? concat({shared, blocks, across(kFloatTypes, for_winograd)}) : shared;
  }
};

struct Conv2dBackwardData {
  static constexpr const char* name = "conv2d_backward_data";
  static constexpr const char* formula =
      "dx[n,c,p,q] = sum_{k,r,s} dy[n, k, (p + pad_h - r*dil_h) / stride_h, (q + pad_w - s*dil_w) / stride_w] * "
      "w[k,c,r,s], where the divisions leave no remainder";
  static constexpr Slot filter = input(0, "w"), dy = input(1, "dy"), dx = output(2, "dx");
  static constexpr bool exact_on_integers = true;

  Conv2d conv;

  void attributes(auto&& field) { conv.attributes(field); }
  void infer(Shapes s);  // the smallest input that gives dy, unless the attributes give one
  std::string invalid() const { return conv.invalid(); }
  std::vector<TensorSpec> tensors() const {
    const auto of = conv.tensors();
    return {filter.of(conv.dtype, of[1].shape), dy.of(conv.dtype, of[2].shape), dx.of(conv.dtype, of[0].shape)};
  }
  double flops() const { return conv.flops(); }
  Tolerance tolerance() const {  // with strides fewer taps count; this bounds them all
    return product_sum_tolerance(1.0 * conv.group_k() * conv.r * conv.s, 0, conv.dtype, conv.math, conv.growth());
  }
  std::optional<LinearAxis> linear_axis() const {
    return LinearAxis{"c", conv.group_c(), conv.groups, {{filter, conv.channel_axis()}, {dx, conv.channel_axis()}}};
  }
  int64_t slices() const { return conv.n * conv.c * conv.h; }      // one row of one channel
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/conv/conv2d_backward.cpp
  static Cases cases(Scale scale) { return conv2d_cases(scale); }
};

namespace conv_backward {

// The smallest extent of x, and the smallest number of taps, that give `out` outputs.
inline int64_t min_extent(int64_t out, int64_t pad, int64_t dil, int64_t taps, int64_t stride) {
  return std::max<int64_t>(0, out == 0 ? 0 : (out - 1) * stride + dil * (taps - 1) + 1 - 2 * pad);
}
inline int64_t min_taps(int64_t out, int64_t pad, int64_t dil, int64_t size, int64_t stride) {
  const int64_t beyond = size + 2 * pad - 1 - out * stride;  // what one tap would leave over
  return beyond < 0 ? 1 : beyond / dil + 2;
}

}  // namespace conv_backward

// With stride and dilation 1, dx is the convolution of dy with the filters turned round by 180 degrees and their axes k
// and c exchanged. Empty with groups, with pads of a filter's extent or more, where the convolution's own pad would be
// negative, and where y is empty.
inline std::optional<Conv2d> convolution_of_dy(const Conv2dBackwardData& p) {
  const Conv2d& f = p.conv;
  if (f.stride_h != 1 || f.stride_w != 1 || f.dil_h != 1 || f.dil_w != 1 || f.groups != 1 || f.pad_h >= f.r ||
      f.pad_w >= f.s || f.ho() == 0 || f.wo() == 0)
    return {};
  Conv2d g = f;
  g.c = f.k;
  g.k = f.c;
  g.h = f.ho();
  g.w = f.wo();
  g.pad_h = f.r - 1 - f.pad_h;
  g.pad_w = f.s - 1 - f.pad_w;
  return g;
}
inline constexpr const char* kNoConvolutionOfDy =
    "groups, strides or dilations above 1, pads of the filter's extent or more, or a filter larger than the padded "
    "input";

// The fewest terms of an element of dw that has any, with stride and dilation 1: taps at the border of a filter read
// less of a padded x than those in its middle.
inline int64_t min_filter_terms(const Conv2d& p) {
  const auto along = [](int64_t taps, int64_t out, int64_t size, int64_t pad) {
    int64_t fewest = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t terms = std::min(out, size + pad - t) - std::max<int64_t>(0, pad - t);
      if (terms > 0 && (fewest == 0 || terms < fewest)) fewest = terms;
    }
    return fewest;
  };
  return p.n * along(p.r, p.ho(), p.h, p.pad_h) * along(p.s, p.wo(), p.w, p.pad_w);
}
// A transformed sum has errors of the terms of neighbouring taps, which cancel but for their roundings. The bound of an
// element follows its own terms, and where these are few, it is the worst case of a sum that is formed directly, which
// transforms exceed (seen with 4 terms; a case has 16).
inline constexpr int64_t kMinTransformedTerms = 16;
inline constexpr const char* kFewTerms = "sums of fewer than 16 terms, whose bound transforms exceed";
inline bool has_few_terms(const Conv2d& p) {
  const int64_t terms = min_filter_terms(p);
  return terms > 0 && terms < kMinTransformedTerms;
}

inline void Conv2dBackwardFilter::infer(Shapes shapes) {
  const auto X = shapes[x], Y = shapes[dy];
  const bool last = conv.layout == Layout::nhwc;
  conv.n = X[0];
  conv.c = X[last ? 3 : 1];
  conv.h = X[last ? 1 : 2];
  conv.w = X[last ? 2 : 3];
  conv.k = Y[last ? 3 : 1];
  if (const int64_t out = Y[last ? 1 : 2]; conv.ho() != out || conv.r == 0)
    conv.r = conv_backward::min_taps(out, conv.pad_h, conv.dil_h, conv.h, conv.stride_h);
  if (const int64_t out = Y[last ? 2 : 3]; conv.wo() != out || conv.s == 0)
    conv.s = conv_backward::min_taps(out, conv.pad_w, conv.dil_w, conv.w, conv.stride_w);
}
inline void Conv2dBackwardData::infer(Shapes shapes) {
  const auto W = shapes[filter], Y = shapes[dy];
  const bool last = conv.layout == Layout::nhwc;
  conv.n = Y[0];
  conv.c = W[last ? 3 : 1] * conv.groups;
  conv.k = W[0];
  conv.r = W[last ? 1 : 2];
  conv.s = W[last ? 2 : 3];
  if (const int64_t out = Y[last ? 1 : 2]; conv.ho() != out)
    conv.h = conv_backward::min_extent(out, conv.pad_h, conv.dil_h, conv.r, conv.stride_h);
  if (const int64_t out = Y[last ? 2 : 3]; conv.wo() != out)
    conv.w = conv_backward::min_extent(out, conv.pad_w, conv.dil_w, conv.s, conv.stride_w);
}

}  // namespace duet
