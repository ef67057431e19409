// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution (cross-correlation, as in every framework), forward. Dense tensors by layout:
//   nchw: x (n, c, h, w), w (k, c/groups, r, s), y (n, k, ho, wo)
//   nhwc: x (n, h, w, c), w (k, r, s, c/groups), y (n, ho, wo, k)
// x is padded with zeros. Output channel o reads the c/groups input channels of its group o / (k/groups).
// ho = (h + 2 pad_h - dil_h (r - 1) - 1) / stride_h + 1 where the filter fits, else 0; wo alike. y is overwritten and
// is not x.
// A sum without terms is 0. Sums are formed in f32 or better.
#pragma once
#include "core/attributes.h"
#include "ops/conv/conv2d_cases.h"
#include "ops/gemm/product.h"

namespace duet {

enum class Layout : uint8_t { nchw, nhwc };
inline std::vector<std::string> names_of(Layout) { return {"nchw", "nhwc"}; }
inline constexpr Words kLayouts{"layout:nchw", "layout:nhwc"};

struct Conv2d {
  static constexpr const char* name = "conv2d";
  static constexpr const char* formula =
      "y[n,k,i,j] = sum_{c,r,s} x[n, c, i*stride_h - pad_h + r*dil_h, j*stride_w - pad_w + s*dil_w] * w[k,c,r,s]";
  static constexpr Slot x = input(0, "x"), filter = input(1, "w"), y = output(2, "y");  // the field w is a width
  static constexpr bool exact_on_integers = true;

  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0;
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1, groups = 1;
  Layout layout = Layout::nchw;
  DType dtype = DType::f32;
  Math math = Math::ieee;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all tensors");
    field.option("math", math, "how f32 products are formed");
    field("n", n, "images");
    field("c", c, "channels of x");
    field("h", h, "height of x");
    field("w", w, "width of x");
    field("k", k, "channels of y");
    field("r", r, "height of the filter");
    field("s", s, "width of the filter");
    field.option("pad_h", pad_h, "rows of zeros above and below x");
    field.option("pad_w", pad_w, "columns of zeros left and right of x");
    field.option("stride_h", stride_h, "rows of x from one output to the next");
    field.option("stride_w", stride_w, "columns of x from one output to the next");
    field.option("dil_h", dil_h, "rows of x from one tap to the next");
    field.option("dil_w", dil_w, "columns of x from one tap to the next");
    field.option("groups", groups, "independent groups of channels; divides c and k");
    field.option("layout", layout, "order of the axes in memory");
  }
  void infer(Shapes shapes) {
    const auto X = shapes[x], W = shapes[filter];
    const bool last = layout == Layout::nhwc;
    n = X[0];
    c = X[last ? 3 : 1];
    h = X[last ? 1 : 2];
    w = X[last ? 2 : 3];
    k = W[0];
    r = W[last ? 1 : 2];
    s = W[last ? 2 : 3];
  }
  std::string invalid() const {
    if (stride_h < 1 || stride_w < 1) return "stride_h, stride_w: 1 or more";
    if (dil_h < 1 || dil_w < 1) return "dil_h, dil_w: 1 or more";
    if (pad_h < 0 || pad_w < 0) return "pad_h, pad_w: 0 or more";
    if (r < 1 || s < 1)
      return "r " + std::to_string(r) + ", s " + std::to_string(s) + ": a filter has 1 or more rows and columns";
    if (groups < 1 || c % groups != 0 || k % groups != 0)
      return "groups " + std::to_string(groups) + ": must divide c and k, 1 or more";
    for (const int64_t v : {h, w, r, s, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w})
      if (v > INT32_MAX) return std::to_string(v) + ": extents, pads, strides and dilations stay below 2^31";
    return invalid_precision(dtype, math);
  }

  int64_t ho() const { return extent(h, pad_h, dil_h, r, stride_h); }
  int64_t wo() const { return extent(w, pad_w, dil_w, s, stride_w); }
  int64_t group_c() const { return groups < 1 ? 0 : c / groups; }
  int64_t group_k() const { return groups < 1 ? 0 : k / groups; }

  std::vector<TensorSpec> tensors() const {
    const bool last = layout == Layout::nhwc;
    return {x.of(dtype, last ? Shape{n, h, w, c} : Shape{n, c, h, w}),
            filter.of(dtype, last ? Shape{k, r, s, group_c()} : Shape{k, group_c(), r, s}),
            y.of(dtype, last ? Shape{n, ho(), wo(), k} : Shape{n, k, ho(), wo()})};
  }
  double flops() const { return 2.0 * n * k * ho() * wo() * group_c() * r * s; }  // products with padding count as well
  // The w of ops/summation.h: a filter of one tap has no transformed form.
  double growth() const { return r * s > 1 ? kTransformed : kDirect; }
  Tolerance tolerance() const { return product_sum_tolerance(1.0 * group_c() * r * s, 0, dtype, math, growth()); }

  // Winograd's transforms of 3x3 filters round the whole filter, while the bound follows the terms of a result, of
  // which a padded corner has few. A sum of several channels and of 8 terms makes up for it (conv2d_cases.h has such
  // corners). The bound of f16 allows for its small numbers, and covers the rest.
  static constexpr const char* kFewTerms =
      "sums of one channel, or of fewer than 8 terms at padded corners, where the errors of transforms would exceed "
      "the bound of a direct sum";
  bool has_winograd_bound() const {
    const auto fewest = [](int64_t taps, int64_t size, int64_t pad) {  // of a result that has any
      return pad == 0 ? taps : std::min(size, std::max<int64_t>(1, taps - pad));
    };
    return dtype == DType::f16 || c == 0 || (c > 1 && c * fewest(r, h, pad_h) * fewest(s, w, pad_w) >= 8);
  }

  size_t channel_axis() const { return layout == Layout::nhwc ? 3 : 1; }  // of x, y and of the filter's c
  std::optional<LinearAxis> linear_axis() const {
    return LinearAxis{"k", group_k(), groups, {{filter, 0}, {y, channel_axis()}}};
  }
  int64_t slices() const { return n * k * ho(); }                  // one row of one output channel
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/conv/conv2d.cpp

  static Cases cases(Scale scale) { return conv2d_cases(scale); }

 private:
  // Nothing overflows here: invalid() bounds the values.
  static int64_t extent(int64_t size, int64_t pad, int64_t dil, int64_t taps, int64_t stride) {
    const int64_t room = size + 2 * pad - dil * (taps - 1) - 1;
    return room < 0 || stride < 1 ? 0 : room / stride + 1;
  }
};

}  // namespace duet
