// SPDX-License-Identifier: Apache-2.0
// The index maps of a convolution as a matrix product, for kernels that multiply without storing an im2col matrix. The
// depth of the product (the axis that is summed over) runs over a group's channels and the taps of the filter.
#pragma once
#include <algorithm>

#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/conv/conv2d.h"

namespace duet::DUET_DEVICE {

// A number in the digits of three axes, and the sizes of the two faster ones. A thread that visits places at a constant
// distance adds the digits of that distance with carries, where a division would take ten times as long.
struct Digits {
  int fast, middle, slow;
};
struct Odometer {
  int fast_size, middle_size;
  Digits digits(int64_t n) const {  // on the host
    const int64_t fast = std::max(1, fast_size), middle = std::max(1, middle_size);
    return {static_cast<int>(n % fast), static_cast<int>(n / fast % middle), static_cast<int>(n / fast / middle)};
  }
  // The sum of two numbers. Digits of `by` are below the sizes, as of every number but those of digits().
  __device__ __forceinline__ Digits add(Digits at, Digits by) const {
    at.fast += by.fast;
    at.middle += by.middle;
    at.slow += by.slow;
    if (at.fast >= fast_size) {
      at.fast -= fast_size;
      ++at.middle;
    }
    if (at.middle >= middle_size) {
      at.middle -= middle_size;
      ++at.slow;
    }
    return at;
  }
};

struct Geometry {
  int64_t pixels, depth;  // n * ho * wo; group_c * r * s
  int64_t c, k;           // channels of x and y
  int h, w, ho, wo, r, s, group_c, group_k;
  int pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
  bool channels_last;
  Divider by_group_c, by_r, by_s, by_ho, by_wo, by_plane;  // by_plane: ho * wo
  Odometer depths;                                         // s, r, c, or with channels_last c, s, r
  Odometer places;                                         // of output pixels: wo, ho, n
  Digits one_depth;
  int image_x, image_y;  // elements of an image of x and of y

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
  template <bool kLast>
  __device__ __forceinline__ static Tap tap_of(Digits d) {
    return kLast ? Tap{d.fast, d.slow, d.middle} : Tap{d.slow, d.middle, d.fast};
  }
  template <bool kLast>
  __device__ __forceinline__ Digits digits_at(int64_t d) const {
    const Tap t = tap(d);
    return kLast ? Digits{t.c, t.s, t.r} : Digits{t.s, t.r, t.c};
  }
  // For an output pixel: the image, and the row and column of x under the filter's first tap.
  struct Pixel {
    int64_t image;  // offset of the image's first element of the group;
                    // negative: the pixel does not exist
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
  // A pixel for threads that visit many taps of it. origin: the element of x under the filter's first tap, as if there
  // were no padding. A pixel that does not exist lies above the image, whatever the tap.
  struct Window {
    int64_t origin;
    int row, col;
  };
  template <bool kLast>
  __device__ __forceinline__ Window window(int64_t p, int64_t group) const {
    const Pixel at = pixel(p, group);
    return {at.image + (int64_t{at.row} * w + at.col) * (kLast ? c : 1), at.image < 0 ? -(1 << 30) : at.row, at.col};
  }
  // The same of an output pixel that exists, by its digits, for x from the group's first channel on.
  __device__ __forceinline__ Digits place_at(int64_t p) const {
    auto image = static_cast<uint32_t>(p);
    const int col = by_wo.split(image), row = by_ho.split(image);
    return {col, row, static_cast<int>(image)};
  }
  template <bool kLast>
  __device__ __forceinline__ Window window(Digits place) const {
    const int row = place.middle * stride_h - pad_h, col = place.fast * stride_w - pad_w;
    return {int64_t{place.slow} * image_x + (row * w + col) * (kLast ? static_cast<int>(c) : 1), row, col};
  }
  template <bool kLast>
  __device__ __forceinline__ int64_t first_channel(int64_t group) const {
    return group * group_c * (kLast ? 1 : int64_t{h} * w);
  }
  // What a tap adds to a window's origin, row and column.
  struct Shift {
    int elements, down, right;
  };
  template <bool kLast>
  __device__ __forceinline__ Shift shift(const Tap& t) const {
    const int down = t.r * dil_h, right = t.s * dil_w;
    return {kLast ? (down * w + right) * static_cast<int>(c) + t.c : (t.c * h + down) * w + right, down, right};
  }
  __device__ __forceinline__ bool inside(const Window& p, const Shift& t) const {
    return static_cast<unsigned>(p.row + t.down) < static_cast<unsigned>(h) &&
           static_cast<unsigned>(p.col + t.right) < static_cast<unsigned>(w);
  }
  // The element of x under a tap, or -1 in the padding.
  __device__ __forceinline__ int64_t element(const Pixel& p, const Tap& t) const {
    const int row = p.row + t.r * dil_h, col = p.col + t.s * dil_w;
    if (p.image < 0 || row < 0 || row >= h || col < 0 || col >= w) return -1;
    return channels_last ? p.image + (int64_t{row} * w + col) * c + t.c : p.image + (int64_t{t.c} * h + row) * w + col;
  }
  // The element of y at output pixel p.
  template <bool kLast>
  __device__ __forceinline__ int64_t result(int64_t p, int64_t channel) const {
    if (kLast) return p * k + channel;
    auto image = static_cast<uint32_t>(p);
    const int at = by_plane.split(image);
    return (int64_t{image} * k + channel) * (int64_t{ho} * wo) + at;
  }
  __device__ __forceinline__ int64_t result(int64_t p, int64_t channel) const {
    return channels_last ? result<true>(p, channel) : result<false>(p, channel);
  }
};

// The reason why the kernels' 32-bit arithmetic does not suffice for these extents; null where it does.
inline const char* too_large(const Conv2d& p) {
  for (const int64_t d : {p.c, p.k, p.ho(), p.wo(), p.group_c() * p.r * p.s, p.group_k() * p.r * p.s})
    if (d > INT32_MAX / 2) return "a dimension over 2^30";
  if (p.n * p.h * p.w > INT32_MAX || p.n * p.ho() * p.wo() > INT32_MAX) return "more than 2^31 - 1 pixels";
  // Offsets within an image, and within the filter, are ints.
  if (p.c * p.h * p.w > INT32_MAX / 2 || p.k * p.ho() * p.wo() > INT32_MAX / 2) return "an image of over 2^30 elements";
  if (p.k * p.group_c() * p.r * p.s > INT32_MAX / 2) return "a filter of over 2^30 elements";
  // Rows and columns of the outermost taps, padding included, must fit an int as well.
  if (p.h + 2 * p.pad_h > INT32_MAX / 2 || p.w + 2 * p.pad_w > INT32_MAX / 2) return "a padded extent over 2^30";
  return nullptr;
}
inline Geometry geometry(const Conv2d& p) {
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  const bool last = p.layout == Layout::nhwc;
  const Odometer depths{narrow(last ? p.group_c() : p.s), narrow(last ? p.s : p.r)};
  const Odometer places{narrow(p.wo()), narrow(p.ho())};
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
          last,
          Divider(p.group_c()),
          Divider(p.r),
          Divider(p.s),
          Divider(p.ho()),
          Divider(p.wo()),
          Divider(p.ho() * p.wo()),
          depths,
          places,
          depths.digits(1),
          narrow(p.c * p.h * p.w),
          narrow(p.k * p.ho() * p.wo())};
}

}  // namespace duet::DUET_DEVICE
