// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution (cross-correlation, as in every framework), forward. Dense tensors by layout:
//   nchw: x (n, c, h, w), w (k, c/groups, r, s), y (n, k, ho, wo)
//   nhwc: x (n, h, w, c), w (k, r, s, c/groups), y (n, ho, wo, k)
// Outside x there are zeros. Output channel o reads the c/groups input channels of its group o / (k/groups).
// ho = (h + 2 pad_h - dil_h (r - 1) - 1) / stride_h + 1 where the filter fits, else 0; wo alike. y is overwritten and
// is not x.
// A sum without terms is 0. Sums are formed in f32 or better.
#pragma once
#include "core/attributes.h"
#include "ops/gemm/product.h"

namespace duet {

enum class Layout : uint8_t { nchw, nhwc };
inline std::vector<std::string> names_of(Layout) { return {"nchw", "nhwc"}; }

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
  double flops() const { return 2.0 * n * k * ho() * wo() * group_c() * r * s; }  // padding counts as computed
  Tolerance tolerance() const { return product_sum_tolerance(1.0 * group_c() * r * s, 0, dtype, math); }

  int64_t slices() const { return n * k * ho(); }                  // one row of one output channel
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/conv/conv2d.cpp

  static std::vector<Case<Conv2d>> cases(Scale scale) {
    if (scale == Scale::test) return test_cases();
    // ResNet-50 v1.5: in@size->out filter/stride, one image. The most frequent 3x3 and 1x1 first.
    std::vector<Case<Conv2d>> resnet{{"ResNet-50 64@56->64 3x3", square(1, 64, 56, 64, 3)},
                                     {"ResNet-50 64@56->256 1x1", square(1, 64, 56, 256, 1)},
                                     {"ResNet-50 3@224->64 7x7/2", square(1, 3, 224, 64, 7, 2)},
                                     {"ResNet-50 128@28->128 3x3", square(1, 128, 28, 128, 3)},
                                     {"ResNet-50 256@14->256 3x3", square(1, 256, 14, 256, 3)},
                                     {"ResNet-50 512@7->512 3x3", square(1, 512, 7, 512, 3)},
                                     {"ResNet-50 256@56->128 1x1", square(1, 256, 56, 128, 1)},
                                     {"ResNet-50 128@56->128 3x3/2", square(1, 128, 56, 128, 3, 2)},
                                     {"ResNet-50 512@28->128 1x1", square(1, 512, 28, 128, 1)},
                                     {"ResNet-50 256@14->1024 1x1", square(1, 256, 14, 1024, 1)},
                                     {"ResNet-50 1024@14->2048 1x1/2", square(1, 1024, 14, 2048, 1, 2)},
                                     {"ResNet-50 512@7->2048 1x1", square(1, 512, 7, 2048, 1)},
                                     {"ResNet-50 64@56->64 3x3, batch 32", square(32, 64, 56, 64, 3)},
                                     {"ResNet-50 256@14->256 3x3, batch 32", square(32, 256, 14, 256, 3)}};
    auto cases = across(&Conv2d::dtype, std::array{DType::f32}, resnet);
    cases = concat(std::move(cases), channels_last({resnet[0], resnet[12]}, {DType::f32, DType::bf16}));
    if (scale == Scale::full) cases = concat(std::move(cases), more_cases(resnet));
    return cases;
  }

 private:
  // Bounded in invalid(), so nothing here overflows.
  static int64_t extent(int64_t size, int64_t pad, int64_t dil, int64_t taps, int64_t stride) {
    const int64_t room = size + 2 * pad - dil * (taps - 1) - 1;
    return room < 0 || stride < 1 ? 0 : room / stride + 1;
  }
  static Conv2d square(int64_t n, int64_t c, int64_t size, int64_t k, int64_t taps, int64_t stride = 1) {
    const int64_t pad = taps / 2;  // same extent at stride 1
    return {.n = n,
            .c = c,
            .h = size,
            .w = size,
            .k = k,
            .r = taps,
            .s = taps,
            .pad_h = pad,
            .pad_w = pad,
            .stride_h = stride,
            .stride_w = stride};
  }
  static std::vector<Case<Conv2d>> channels_last(std::vector<Case<Conv2d>> cases, const std::vector<DType>& dtypes) {
    for (Case<Conv2d>& c : cases) c.problem.layout = Layout::nhwc;
    return across(&Conv2d::dtype, dtypes, std::move(cases));
  }
  static std::vector<Case<Conv2d>> test_cases() {
    const std::vector<Case<Conv2d>> odd{
        {"one tap", {.n = 1, .c = 1, .h = 1, .w = 1, .k = 1, .r = 1, .s = 1}},
        {"no image", {.n = 0, .c = 3, .h = 7, .w = 11, .k = 5, .r = 3, .s = 3}},
        {"no channel: sums are 0", {.n = 1, .c = 0, .h = 3, .w = 3, .k = 5, .r = 3, .s = 3}},
        {"the filter does not fit", {.n = 1, .c = 3, .h = 3, .w = 3, .k = 5, .r = 5, .s = 3}},
        {"nothing square", {.n = 2, .c = 3, .h = 7, .w = 11, .k = 5, .r = 5, .s = 3}},
        {"pad in one axis", {.n = 1, .c = 3, .h = 7, .w = 11, .k = 5, .r = 3, .s = 3, .pad_w = 2}},
        {"pad over the filter", {.n = 1, .c = 2, .h = 3, .w = 4, .k = 3, .r = 3, .s = 3, .pad_h = 4, .pad_w = 3}},
        {"stride 2 leaves a remainder",
         {.n = 2,
          .c = 3,
          .h = 8,
          .w = 11,
          .k = 5,
          .r = 3,
          .s = 3,
          .pad_h = 1,
          .pad_w = 1,
          .stride_h = 2,
          .stride_w = 3}},
        {"dilation 2", {.n = 1, .c = 3, .h = 11, .w = 13, .k = 5, .r = 3, .s = 3, .pad_h = 2, .dil_h = 2, .dil_w = 2}},
        {"stride and dilation that share a factor, and that do not",
         {.n = 1,
          .c = 3,
          .h = 13,
          .w = 17,
          .k = 5,
          .r = 3,
          .s = 3,
          .pad_h = 2,
          .pad_w = 2,
          .stride_h = 2,
          .stride_w = 3,
          .dil_h = 2,
          .dil_w = 2}},
        {"dilation past the stride, groups",
         {.n = 2,
          .c = 4,
          .h = 15,
          .w = 13,
          .k = 6,
          .r = 3,
          .s = 2,
          .stride_h = 2,
          .stride_w = 2,
          .dil_h = 3,
          .dil_w = 4,
          .groups = 2}},
        {"depthwise", {.n = 2, .c = 17, .h = 9, .w = 9, .k = 17, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 17}},
        {"depthwise, stride 2",
         {.n = 2,
          .c = 5,
          .h = 9,
          .w = 37,
          .k = 5,
          .r = 3,
          .s = 3,
          .pad_h = 1,
          .pad_w = 1,
          .stride_h = 2,
          .stride_w = 2,
          .groups = 5}},
        {"groups of unequal width", {.n = 2, .c = 6, .h = 7, .w = 11, .k = 9, .r = 3, .s = 1, .groups = 3}},
        {"channels by eights", {.n = 1, .c = 16, .h = 5, .w = 7, .k = 24, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}},
        {"channels by eights, groups, stride 2",
         {.n = 2,
          .c = 16,
          .h = 5,
          .w = 6,
          .k = 16,
          .r = 3,
          .s = 3,
          .pad_h = 1,
          .pad_w = 1,
          .stride_h = 2,
          .stride_w = 2,
          .groups = 2}},
        {"1x1, over a tile", {.n = 2, .c = 33, .h = 7, .w = 11, .k = 65, .r = 1, .s = 1}},
        {"1x1, stride 2", {.n = 1, .c = 17, .h = 7, .w = 9, .k = 33, .r = 1, .s = 1, .stride_h = 2, .stride_w = 2}},
        {"3x3, over a tile", {.n = 1, .c = 33, .h = 17, .w = 19, .k = 35, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}},
        {"a first layer",
         {.n = 1,
          .c = 3,
          .h = 33,
          .w = 31,
          .k = 16,
          .r = 7,
          .s = 7,
          .pad_h = 3,
          .pad_w = 3,
          .stride_h = 2,
          .stride_w = 2}},
        {"1x1, over a cache block in pixels, nine images", {.n = 9, .c = 2, .h = 23, .w = 23, .k = 17, .r = 1, .s = 1}},
        {"over a cache block in rows",
         {.n = 1, .c = 2, .h = 33, .w = 35, .k = 3, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}},
        {"over a cache block in c",
         {.n = 1, .c = 129, .h = 5, .w = 9, .k = 17, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}},
        {"over a cache block in k, stride 2",
         {.n = 2,
          .c = 3,
          .h = 6,
          .w = 7,
          .k = 129,
          .r = 5,
          .s = 5,
          .pad_h = 2,
          .pad_w = 2,
          .stride_h = 2,
          .stride_w = 2}},
        {"over a cache block in k",
         {.n = 2, .c = 5, .h = 5, .w = 5, .k = 129, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}}};
    return concat(in_all_precisions<Conv2d>(odd),
                  concat(channels_last(odd, {DType::f32, DType::bf16, DType::f16}), {}));
  }
  static std::vector<Case<Conv2d>> more_cases(std::vector<Case<Conv2d>> resnet) {
    const std::vector<Case<Conv2d>> others{
        {"ResNet-50 512@14->512 3x3/2, batch 32", square(32, 512, 14, 512, 3, 2)},
        {"VGG-19 64@224 3x3", square(1, 64, 224, 64, 3)},
        {"VGG-19 256@56 3x3, batch 8", square(8, 256, 56, 256, 3)},
        {"VGG-19 512@14 3x3, batch 64", square(64, 512, 14, 512, 3)},
        {"DeepBench speech 1@161x700->32 5x20/2",
         {.n = 4, .c = 1, .h = 161, .w = 700, .k = 32, .r = 5, .s = 20, .stride_h = 2, .stride_w = 2}},
        {"DeepBench speech 32@79x341->32 5x10/2",
         {.n = 4, .c = 32, .h = 79, .w = 341, .k = 32, .r = 5, .s = 10, .stride_h = 2, .stride_w = 2}},
        {"DeepBench 192@28->32 5x5", square(8, 192, 28, 32, 5)},
        {"MobileNet v1 depthwise 512@14",
         {.n = 1, .c = 512, .h = 14, .w = 14, .k = 512, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 512}},
        {"MobileNet v1 depthwise 32@112",
         {.n = 1, .c = 32, .h = 112, .w = 112, .k = 32, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .groups = 32}}};
    auto all = across(&Conv2d::dtype, kFloats, others);
    for (Case<Conv2d>& c : resnet) c.problem.n = 32;
    resnet.resize(12);  // the last two are batch 32 already
    return concat(concat(std::move(all), resnet), channels_last(resnet, {DType::f32, DType::bf16, DType::f16}));
  }
};

}  // namespace duet
