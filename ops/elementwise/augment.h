// SPDX-License-Identifier: Apache-2.0
// What an input pipeline does to a batch of images: crop, flip, normalise, and NHWC bytes to NCHW floats.
//   x: (n, h, w, c) u8; top, left, flip: (n) i32; mean, std: (c) f32; y: (n, c, ho, wo) of dtype; dense; no two
//   overlap.
//   Image k is cropped to the ho x wo pixels from (top[k], left[k]) on, which may lie outside x; where flip[k] is not 0
//   the crop is mirrored, left to right. Pixels outside x count as 0, black, before they are normalised.
//   std is not 0: 1 / std and mean / std are finite.
// Arithmetic in f32 or better; std and mean may be combined to a factor and a summand before.
#pragma once
#include <functional>
#include <string>

#include "core/problem.h"
#include "ops/bounded_sum.h"
#include "ops/statistic.h"

namespace duet {

struct Augment {
  static constexpr const char* name = "augment";
  static constexpr const char* formula =
      "y[n,c,i,j] = (x[n, top[n] + i, left[n] + (flip[n] ? wo - 1 - j : j), c] / 255 - mean[c]) / std[c], x = 0 "
      "outside";
  static constexpr Slot x = input(0, "x"), top = input(1, "top"), left = input(2, "left"), flip = input(3, "flip");
  static constexpr Slot mean = input(4, "mean"), deviation = input(5, "std"), y = output(6, "y");

  int64_t n = 0, c = 3, h = 0, w = 0, ho = 0, wo = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of y");
    field("n", n, "images");
    field("c", c, "channels");
    field("h", h, "height of x");
    field("w", w, "width of x");
    field("ho", ho, "height of y");
    field("wo", wo, "width of y");
  }
  void infer(Shapes s) {  // ho and wo are given
    n = s[x][0];
    h = s[x][1];
    w = s[x][2];
    c = s[x][3];
  }
  std::string invalid() const {
    for (const int64_t v : {h, w, ho, wo})
      if (v > INT32_MAX) return std::to_string(v) + ": extents of images stay below 2^31";
    return "";
  }
  std::vector<TensorSpec> tensors() const {
    const DType f = statistic_dtype(dtype);
    return {x.of(DType::u8, {n, h, w, c}, Fill::below(256)).touching(n * std::min(h, ho) * std::min(w, wo) * c),
            top.of(DType::i32, {n}),
            left.of(DType::i32, {n}),
            flip.of(DType::i32, {n}),
            mean.of(f, {c}, Fill::uniform(0.4, 0.5)),
            deviation.of(f, {c}, Fill::uniform(0.2, 0.3)),
            y.of(dtype, {n, c, ho, wo})};
  }
  // Crops lie inside the image where it is large enough; half of them, at random, are mirrored.
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    const auto below = [](int64_t limit) {
      return [limit](int64_t, uint32_t bits) { return static_cast<double>(bits % limit); };
    };
    if (slot == top.index) return below(1 + std::max<int64_t>(0, h - ho));
    if (slot == left.index) return below(1 + std::max<int64_t>(0, w - wo));
    if (slot == flip.index) return below(2);
    return {};
  }
  double flops() const { return 3.0 * static_cast<double>(n * c * ho * wo); }
  // abs_sum is an error in units of u = 2^-24. As it stands, the formula rounds x / 255, the difference and the
  // quotient: one rounding of x / (255 std) and two of y. With a factor and a summand: two roundings of x / (255 std),
  // two of mean / std, one of y. The bound has the larger number of each. Then y is rounded to dtype.
  Tolerance tolerance() const {
    return {
        .rel = 2 * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs_sum = kF32Roundoff, .abs = underflow(dtype)};
  }
  int64_t slices() const { return n * c * ho; }                    // a row of a plane of y
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/augment.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one pixel", "n:1 c:1 h:1 w:1 ho:1 wo:1"},
        {"no images", "n:0 h:5 w:7 ho:3 wo:3"},
        {"no channels", "n:2 c:0 h:5 w:7 ho:3 wo:3"},
        {"crops of nothing", "n:2 h:5 w:7 ho:0 wo:3"},
        {"images of nothing: all pixels are outside", "n:2 h:0 w:0 ho:3 wo:5"},
        {"nothing square", "n:3 h:9 w:13 ho:5 wo:7"},
        {"no crop", "n:2 h:5 w:33 ho:5 wo:33"},
        {"one channel", "n:2 c:1 h:9 w:71 ho:5 wo:67"},
        {"four channels", "n:2 c:4 h:9 w:40 ho:5 wo:32"},
        {"five channels", "n:2 c:5 h:9 w:41 ho:5 wo:33"},
        {"whole packs", "n:3 h:36 w:40 ho:16 wo:32"},
        {"all mirrored", "n:2 h:9 w:300 ho:3 wo:260 flip=1"},
        {"crops larger than the image", "n:2 h:5 w:7 ho:9 wo:40"},
        {"crops beyond the lower right", "n:3 h:9 w:33 ho:5 wo:32 top=below:20 left=below:80"},
        {"crops beyond the upper left", "n:2 h:9 w:33 ho:5 wo:32 top=-3 left=-5"},
        {"a crop far outside", "n:2 h:9 w:33 ho:5 wo:32 top=2147483647 left=-2147483648 flip=1"},
    };
    const Cases standard{
        {"ImageNet, 256 x 256 to 224 x 224, batch 64", "n:64 h:256 w:256 ho:224 wo:224"},
        {"CIFAR-10, padded to 40 x 40, to 32 x 32, batch 128", "n:128 h:40 w:40 ho:32 wo:32"},
    };
    const Cases more{
        {"ImageNet, 256 x 256 to 224 x 224, batch 256", "n:256 h:256 w:256 ho:224 wo:224"},
    };
    if (scale == Scale::sweep) return sweep("n", 1, 4096, "h:40 w:40 ho:32 wo:32");
    return across(kFloatTypes, by_scale(scale, test, standard, more));
  }
};

}  // namespace duet
