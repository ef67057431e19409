// SPDX-License-Identifier: Apache-2.0
// The index maps of a convolution as a matrix product, for kernels that multiply without storing an im2col matrix. The
// depth of the product (the axis that is summed over) runs over a group's channels and the taps of the filter.
#pragma once
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/conv/conv2d.h"

namespace duet::DUET_DEVICE {

struct Geometry {
  int64_t pixels, depth;  // n * ho * wo; group_c * r * s
  int64_t c, k;           // channels of x and y
  int h, w, ho, wo, r, s, group_c, group_k;
  int pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
  bool channels_last;
  Divider by_group_c, by_r, by_s, by_ho, by_wo, by_plane;  // by_plane: ho * wo

  struct Tap {
    int c, r, s;
  };
  // The channel and tap at depth d. Depths have the order of the filter in memory: c, r, s, or with channels_last r, s,
  // c.
  __device__ __forceinline__ Tap tap(int64_t d) const {
    auto rest = static_cast<uint32_t>(d);  // below 2^31: too_large() is checked by the plan
    if (channels_last) {
      const int channel = by_group_c.split(rest), col = by_s.split(rest);
      return {channel, static_cast<int>(rest), col};
    }
    const int col = by_s.split(rest), row = by_r.split(rest);
    return {static_cast<int>(rest), row, col};
  }
  // For an output pixel: the image, and the row and column of x under the filter's first tap.
  struct Pixel {
    int64_t image;  // offset of the image's first element of the group; negative: the pixel does not exist
    int row, col;
  };
  __device__ __forceinline__ Pixel pixel(int64_t p, int64_t group) const {
    if (p >= pixels) return {-1, 0, 0};
    auto image = static_cast<uint32_t>(p);
    const int j = by_wo.split(image), i = by_ho.split(image);
    const int64_t first_c = group * group_c, plane = int64_t{h} * w;
    return {int64_t{image} * c * plane + (channels_last ? first_c : first_c * plane), i * stride_h - pad_h,
            j * stride_w - pad_w};
  }
  // The element of x under a tap, or -1 in the padding.
  __device__ __forceinline__ int64_t element(const Pixel& p, const Tap& t) const {
    const int row = p.row + t.r * dil_h, col = p.col + t.s * dil_w;
    if (p.image < 0 || row < 0 || row >= h || col < 0 || col >= w) return -1;
    return channels_last ? p.image + (int64_t{row} * w + col) * c + t.c : p.image + (int64_t{t.c} * h + row) * w + col;
  }
  // The element of y at output pixel p.
  __device__ __forceinline__ int64_t result(int64_t p, int64_t channel) const {
    if (channels_last) return p * k + channel;
    auto image = static_cast<uint32_t>(p);
    const int at = by_plane.split(image);
    return (int64_t{image} * k + channel) * (int64_t{ho} * wo) + at;
  }
};

// The reason why the kernels' 32-bit arithmetic does not suffice for these extents; null where it does.
inline const char* too_large(const Conv2d& p) {
  for (const int64_t d : {p.c, p.k, p.ho(), p.wo(), p.group_c() * p.r * p.s, p.group_k() * p.r * p.s})
    if (d > INT32_MAX / 2) return "a dimension over 2^30";
  if (p.n * p.h * p.w > INT32_MAX || p.n * p.ho() * p.wo() > INT32_MAX) return "more than 2^31 - 1 pixels";
  // Rows and columns of the outermost taps, padding included, must fit an int as well.
  if (p.h + 2 * p.pad_h > INT32_MAX / 2 || p.w + 2 * p.pad_w > INT32_MAX / 2) return "a padded extent over 2^30";
  return nullptr;
}
inline Geometry geometry(const Conv2d& p) {
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  return {p.n * p.ho() * p.wo(),
          p.group_c() * p.r * p.s,
          p.c,
          p.k,
          narrow(p.h),
          narrow(p.w),
          narrow(p.ho()),
          narrow(p.wo()),
          narrow(p.r),
          narrow(p.s),
          narrow(p.group_c()),
          narrow(p.group_k()),
          narrow(p.pad_h),
          narrow(p.pad_w),
          narrow(p.stride_h),
          narrow(p.stride_w),
          narrow(p.dil_h),
          narrow(p.dil_w),
          p.layout == Layout::nhwc,
          Divider(p.group_c()),
          Divider(p.r),
          Divider(p.s),
          Divider(p.ho()),
          Divider(p.wo()),
          Divider(p.ho() * p.wo())};
}

}  // namespace duet::DUET_DEVICE
