// SPDX-License-Identifier: Apache-2.0
// How batchnorm_tuned.cpp cuts its sums: the same way for any number of threads, so that results do not depend on it.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace duet {

// nchw: each plane of a channel is cut into pieces of at most kMaxLength elements, and consecutive pieces make up a
// group of about kGroup elements, which fits L2. The mean of a group comes first; then a second pass over the group,
// from L2, sums the deviations from that mean. A term passes through at most as many additions as a piece has elements
// and a group has pieces.
class Pieces {
 public:
  static constexpr int64_t kMaxLength = 1024, kGroup = 32768;  // elements

  Pieces(int64_t planes, int64_t pixels)
      : pixels_(pixels), in_plane_(ceil_div(pixels, kMaxLength)), count_(planes * in_plane_) {}
  int64_t count() const { return count_; }
  int64_t in_group() const { return kGroup / std::max<int64_t>(32, std::min(kMaxLength, pixels_)); }
  int64_t plane(int64_t i) const { return i / in_plane_; }
  int64_t first(int64_t i) const { return i % in_plane_ * kMaxLength; }
  int64_t length(int64_t i) const { return std::min(kMaxLength, pixels_ - first(i)); }

 private:
  int64_t pixels_, in_plane_, count_;
};

// nhwc: pixels are cut into blocks of about kElements elements over all channels.
struct PixelBlocks {
  static constexpr int64_t kMaxPixels = 1024, kElements = 32768;
  PixelBlocks(int64_t pixels, int64_t channels)
      : pixels(pixels),
        height(std::clamp<int64_t>(kElements / std::max<int64_t>(1, channels), 16, kMaxPixels)),
        count(ceil_div(pixels, height)) {}
  int64_t length(int64_t block) const { return std::min(height, pixels - block * height); }
  int64_t pixels, height, count;
};

}  // namespace duet
