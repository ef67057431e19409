// SPDX-License-Identifier: Apache-2.0
// Moves that change a width: a register's low part, a value that is extended, registers joined to one and split again.
// decode.cpp inserts them where PTX allows registers of other widths than the instruction's.
#include <cstring>
#include <type_traits>

#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {
template <class From>
Handler resize_from(int to_bytes) {
  struct As {
    From operator()(From a) const { return a; }
  };
  using Signed = std::is_signed<From>;
  using U1 = std::conditional_t<Signed::value, int8_t, uint8_t>;
  using U2 = std::conditional_t<Signed::value, int16_t, uint16_t>;
  using U4 = std::conditional_t<Signed::value, int32_t, uint32_t>;
  using U8 = std::conditional_t<Signed::value, int64_t, uint64_t>;
  return to_bytes == 1   ? unary<U1, From, As>
         : to_bytes == 2 ? unary<U2, From, As>
         : to_bytes == 4 ? unary<U4, From, As>
                         : unary<U8, From, As>;
}

// mov.b32 %r, {%h, %h}: parts from the low end on.
template <class Whole, class Part>
void join_parts(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr int kParts = sizeof(Whole) / sizeof(Part);
  Whole result[kLanes] = {};
  for (int e = 0; e < kParts; ++e) {
    const Part* part = w.at<Part>(i.list[e]);
    for (int l = 0; l < kLanes; ++l) result[l] |= static_cast<Whole>(part[l]) << (8 * sizeof(Part) * e);
  }
  store_lanes(w.at<Whole>(i.dst), result, lanes);
}
template <class Whole, class Part>
void split_parts(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr int kParts = sizeof(Whole) / sizeof(Part);
  Whole whole[kLanes];
  std::memcpy(whole, w.at<Whole>(i.a), sizeof whole);
  for (int e = 0; e < kParts; ++e) {
    if (i.list[e] == kNone) continue;
    Part result[kLanes];
    for (int l = 0; l < kLanes; ++l) result[l] = static_cast<Part>(whole[l] >> (8 * sizeof(Part) * e));
    store_lanes(w.at<Part>(i.list[e]), result, lanes);
  }
}
}  // namespace

Handler resize_handler(int from, int to, bool sign) {
  switch (from) {
    case 1:
      return sign ? resize_from<int8_t>(to) : resize_from<uint8_t>(to);
    case 2:
      return sign ? resize_from<int16_t>(to) : resize_from<uint16_t>(to);
    case 4:
      return sign ? resize_from<int32_t>(to) : resize_from<uint32_t>(to);
    default:
      return sign ? resize_from<int64_t>(to) : resize_from<uint64_t>(to);
  }
}

Handler join_handler(int bytes, int each) {
  return bytes == 4 && each == 2   ? join_parts<uint32_t, uint16_t>
         : bytes == 8 && each == 4 ? join_parts<uint64_t, uint32_t>
         : bytes == 8 && each == 2 ? join_parts<uint64_t, uint16_t>
                                   : nullptr;
}

Handler split_handler(int bytes, int each) {
  return bytes == 4 && each == 2   ? split_parts<uint32_t, uint16_t>
         : bytes == 8 && each == 4 ? split_parts<uint64_t, uint32_t>
         : bytes == 8 && each == 2 ? split_parts<uint64_t, uint16_t>
                                   : nullptr;
}

}  // namespace duet::softgpu
