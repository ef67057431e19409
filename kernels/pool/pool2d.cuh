// SPDX-License-Identifier: Apache-2.0
// The geometry of the pooling kernels, which see x as (images, h, w, depth) in both layouts: nhwc as it is, nchw as
// images of one channel (depth 1).
#pragma once
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/pool/pool2d.h"

namespace duet::DUET_DEVICE {

struct PoolExtents {
  explicit PoolExtents(const Pool2d& p)
      : h(narrow(p.h)),
        w(narrow(p.w)),
        ho(narrow(p.ho())),
        wo(narrow(p.wo())),
        r(narrow(p.r)),
        s(narrow(p.s)),
        pad_h(narrow(p.pad_h)),
        pad_w(narrow(p.pad_w)),
        stride_h(narrow(p.stride_h)),
        stride_w(narrow(p.stride_w)),
        dil_h(narrow(p.dil_h)),
        dil_w(narrow(p.dil_w)),
        depth(p.depth()) {}
  static int narrow(int64_t v) { return static_cast<int>(v); }  // Pool2d::invalid() limits them
  int h, w, ho, wo, r, s, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
  int64_t depth;
};

// For the tuned kernels, which have one thread per pack of kSize channels of a pixel: divides a pack's index into
// channel, column, row and image, in 32-bit arithmetic.
struct PoolPlace {
  PoolPlace(int64_t height, int64_t width, int64_t packs) : by_packs(packs), by_width(width), by_height(height) {}
  Divider by_packs, by_width, by_height;
  struct At {
    uint32_t image;
    int row, column, channel;  // channel: the first of the pack
  };
  template <int kSize>
  __device__ __forceinline__ At at(uint32_t pack) const {
    At it;
    it.image = pack;
    it.channel = by_packs.split(it.image) * kSize;
    it.column = by_width.split(it.image);
    it.row = by_height.split(it.image);
    return it;
  }
};
inline constexpr int64_t kMaxPooled = INT32_MAX;  // elements of x or y
inline constexpr const char* kTooManyPooled = "more than 2^31 - 1 elements in a tensor";

// Store and load the indices of kSize elements (i32) in accesses of at most 16 bytes; for halves that is more than one.
template <int kSize>
__device__ __forceinline__ void store_places(int32_t* to, const int (&places)[kSize]) {
  constexpr int kWord = kSize < 4 ? kSize : 4;
#pragma unroll
  for (int first = 0; first < kSize; first += kWord) {
    Pack<int32_t, kWord> pack;
#pragma unroll
    for (int e = 0; e < kWord; ++e) pack.at[e] = places[first + e];
    store_pack(to + first, pack);
  }
}
template <int kSize>
__device__ __forceinline__ void load_places(const int32_t* from, int (&places)[kSize]) {
  constexpr int kWord = kSize < 4 ? kSize : 4;
#pragma unroll
  for (int first = 0; first < kSize; first += kWord) {
    const auto pack = load_pack<kWord>(from + first);
#pragma unroll
    for (int e = 0; e < kWord; ++e) places[first + e] = pack.at[e];
  }
}

// Whether windows tile x: a pixel lies in one window, or behind the last of its row or column. A gradient then has one
// thread per pack of channels of a window, which writes every pixel of it, and those behind it: of few pixels.
inline bool windows_tile(const Pool2d& p) {
  return p.r * p.s <= 16 && p.r == p.stride_h && p.s == p.stride_w && p.dil_h == 1 && p.dil_w == 1 && p.pad_h == 0 &&
         p.pad_w == 0 && p.ho() > 0 && p.wo() > 0;
}
// Whether store_window() may store two pixels of a row at once: they are neighbours in memory, at an even address.
template <class T>
bool stores_pairs(const Pool2d& p, const T* dx) {
  return p.depth() == 1 && p.w % 2 == 0 && p.s % 2 == 0 && aligned16(dx);
}
// dx: the first element of the image, at the first of kSize channels. Writes value(row, column, e) for the window
// (i, j), and 0 behind the last ones. pairs: see stores_pairs().
template <int kSize, class T, class Value>
__device__ __forceinline__ void store_window(T* dx, const PoolExtents& p, int i, int j, bool pairs, Value&& value) {
  const int top = i * p.r, left = j * p.s, bottom = i + 1 == p.ho ? p.h : top + p.r,
            right = j + 1 == p.wo ? p.w : left + p.s;
  const auto at = [&](int row, int column, int e) {
    return T(row < top + p.r && column < left + p.s ? value(row, column, e) : 0.0f);
  };
  for (int row = top; row < bottom; ++row) {
    T* line = dx + int64_t{row} * p.w * p.depth;
    int column = left;
    if (kSize == 1 && pairs)
      for (; column < right; column += 2)
        store_pack(line + column, Pack<T, 2>{{at(row, column, 0), at(row, column + 1, 0)}});
    for (; column < right; ++column) {
      Pack<T, kSize> out;
#pragma unroll
      for (int e = 0; e < kSize; ++e) out.at[e] = at(row, column, e);
      store_pack(line + column * p.depth, out);
    }
  }
}

// Calls run.operator()<kSize>() with packs of 16 bytes where channels and addresses allow, else with 1.
template <class T, class Run, class... P>
void by_channels(const Pool2d& p, Run&& run, const P*... tensors) {
  if (p.depth() % kPack<T> == 0 && aligned16(tensors...))
    run.template operator()<kPack<T>>();
  else
    run.template operator()<1>();
}
// Calls run.operator()<kR, kS>(), the size of the window, whose loops are unrolled for the usual sizes; 0 stands for
// any.
template <class Run>
void by_window(const Pool2d& p, Run&& run) {
  if (p.r == 2 && p.s == 2)
    run.template operator()<2, 2>();
  else if (p.r == 3 && p.s == 3)
    run.template operator()<3, 3>();
  else
    run.template operator()<0, 0>();
}

}  // namespace duet::DUET_DEVICE
