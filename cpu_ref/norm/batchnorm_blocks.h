// SPDX-License-Identifier: Apache-2.0
// How batchnorm_tuned.cpp cuts its sums.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace duet {

// nchw: a channel is cut into pieces of a plane, and groups of pieces, which L2 holds: deviations are taken from the mean of
// a group, in a second pass over it. No term passes through more additions than a piece has elements and a group pieces.
class Pieces {
 public:
  static constexpr int64_t kMost = 1024, kGroup = 32768;  // elements

  Pieces(int64_t planes, int64_t pixels)
      : pixels_(pixels), in_plane_(ceil_div(pixels, kMost)), count_(planes * in_plane_) {}
  int64_t count() const { return count_; }
  int64_t in_group() const { return kGroup / std::max<int64_t>(32, std::min(kMost, pixels_)); }
  int64_t plane(int64_t i) const { return i / in_plane_; }
  int64_t first(int64_t i) const { return i % in_plane_ * kMost; }
  int64_t length(int64_t i) const { return std::min(kMost, pixels_ - first(i)); }

 private:
  int64_t pixels_, in_plane_, count_;
};

// nhwc: pixels are cut into blocks.
struct PixelBlocks {
  static constexpr int64_t kMost = 1024, kElements = 32768;
  PixelBlocks(int64_t pixels, int64_t channels)
      : pixels(pixels),
        height(std::clamp<int64_t>(kElements / std::max<int64_t>(1, channels), 16, kMost)),
        count(ceil_div(pixels, height)) {}
  int64_t length(int64_t block) const { return std::min(height, pixels - block * height); }
  int64_t pixels, height, count;
};

// Count, mean and sum of squared deviations of a set, and of two together (Chan, Golub, LeVeque 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double all = count + n, apart = other_mean - mean;
    mean += apart * n / all;
    squares += other_squares + apart * apart * count * n / all;
    count = all;
  }
};

}  // namespace duet
