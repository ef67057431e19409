// SPDX-License-Identifier: Apache-2.0
// Loops over the lanes of a warp, from which most handlers are made. Results are computed for all lanes, without a
// branch, and stored for those that take part: so a loop is SIMD code whatever the mask is.
#pragma once
#include <cstdint>
#include <cstring>

#include "softgpu/warp.h"

namespace duet::softgpu {

template <class T>
inline void store_lanes(T* to, const T (&from)[kLanes], uint32_t lanes) {
  if (lanes == kAllLanes) {
    std::memcpy(to, from, sizeof from);
    return;
  }
  for (int l = 0; l < kLanes; ++l) to[l] = lanes >> l & 1 ? from[l] : to[l];
}

inline void store_predicate(uint32_t& to, uint32_t bits, uint32_t lanes) { to = (to & ~lanes) | (bits & lanes); }

// F: a type with a call operator of the values.
template <class D, class A, class F>
void unary(Warp& w, const Instruction& i, uint32_t lanes) {
  const A* a = w.at<A>(i.a);
  alignas(64) D result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = static_cast<D>(F{}(a[l]));
  store_lanes(w.at<D>(i.dst), result, lanes);
}

template <class D, class A, class B, class F>
void binary(Warp& w, const Instruction& i, uint32_t lanes) {
  const A* a = w.at<A>(i.a);
  const B* b = w.at<B>(i.b);
  alignas(64) D result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = static_cast<D>(F{}(a[l], b[l]));
  store_lanes(w.at<D>(i.dst), result, lanes);
}

template <class D, class A, class C, class F>
void ternary(Warp& w, const Instruction& i, uint32_t lanes) {
  const A* a = w.at<A>(i.a);
  const A* b = w.at<A>(i.b);
  const C* c = w.at<C>(i.c);
  alignas(64) D result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = static_cast<D>(F{}(a[l], b[l], c[l]));
  store_lanes(w.at<D>(i.dst), result, lanes);
}

template <class A, class F>
void compare(Warp& w, const Instruction& i, uint32_t lanes) {
  const A* a = w.at<A>(i.a);
  const A* b = w.at<A>(i.b);
  uint32_t bits = 0;
  for (int l = 0; l < kLanes; ++l) bits |= static_cast<uint32_t>(F{}(a[l], b[l])) << l;
  if (i.dst != kNone) store_predicate(*w.at<uint32_t>(i.dst), bits, lanes);
  if (i.d != kNone) store_predicate(*w.at<uint32_t>(i.d), ~bits, lanes);
}

}  // namespace duet::softgpu
