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
