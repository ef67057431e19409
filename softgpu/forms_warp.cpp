// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: shuffles, votes, reductions, matches. The executor has brought the lanes of
// the mask together, and `lanes` are those of them that the instruction's predicate lets through.
#include <bit>
#include <string>

#include "core/error.h"
#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

enum class Mode { up, down, butterfly, index };

// PTX ISA, "shfl.sync": c has the clamp in its low 5 bits, and from bit 8 on the mask that divides the warp into
// segments.
template <Mode kMode>
void shuffle(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t* a = w.at<uint32_t>(i.a);
  const uint32_t* by = w.at<uint32_t>(i.b);
  const uint32_t* clamp = w.at<uint32_t>(i.c);
  uint32_t result[kLanes] = {}, in_range = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    const int b = static_cast<int>(by[l] & 31), c = static_cast<int>(clamp[l] & 31);
    const int segment = static_cast<int>(clamp[l] >> 8 & 31);
    const int last = (l & segment) | (c & ~segment), first = l & segment;
    int from = l;
    bool valid = false;
    switch (kMode) {
      case Mode::up:
        from = l - b;
        valid = from >= last;
        break;
      case Mode::down:
        from = l + b;
        valid = from <= last;
        break;
      case Mode::butterfly:
        from = l ^ b;
        valid = from <= last;
        break;
      case Mode::index:
        from = first | (b & ~segment);
        valid = from <= last;
        break;
    }
    if (!valid) from = l;
    if (!(lanes >> from & 1)) fault(fmt::format("a shuffle reads lane {}, which takes no part in it", from), l);
    result[l] = a[from];
    in_range |= static_cast<uint32_t>(valid) << l;
  }
  store_lanes(w.at<uint32_t>(i.dst), result, lanes);
  if (i.d != kNone) store_predicate(*w.at<uint32_t>(i.d), in_range, lanes);
}

void ballot(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t votes = *w.at<uint32_t>(i.a) ^ static_cast<uint32_t>(i.offset);  // offset: ~0 for !p
  uint32_t result[kLanes];
  for (uint32_t& r : result) r = votes & lanes;
  store_lanes(w.at<uint32_t>(i.dst), result, lanes);
}

enum class Vote { all, any, uniform };
template <Vote kVote>
void vote(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t votes = (*w.at<uint32_t>(i.a) ^ static_cast<uint32_t>(i.offset)) & lanes;
  const bool yes = kVote == Vote::all ? votes == lanes : kVote == Vote::any ? votes != 0 : votes == 0 || votes == lanes;
  store_predicate(*w.at<uint32_t>(i.dst), yes ? kAllLanes : 0, lanes);
}

struct Add {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};
struct And {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a & b; }
};
struct Or {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};
struct Xor {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a ^ b; }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
template <class T, class F>
void reduce(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  const int first = std::countr_zero(lanes);
  T total = a[first];
  for (int l = first + 1; l < kLanes; ++l)
    if (lanes >> l & 1) total = static_cast<T>(F{}(total, a[l]));
  T result[kLanes];
  for (T& r : result) r = total;
  store_lanes(w.at<T>(i.dst), result, lanes);
}

template <class T>
void match_any(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  uint32_t result[kLanes] = {};
  for (int l = 0; l < kLanes; ++l)
    for (int other = 0; other < kLanes; ++other)
      if ((lanes >> other & 1) && a[other] == a[l]) result[l] |= uint32_t{1} << other;
  store_lanes(w.at<uint32_t>(i.dst), result, lanes);
}

// The warp's active lanes, as far as the program has brought them together.
void active_lanes(Warp& w, const Instruction& i, uint32_t lanes) {
  uint32_t result[kLanes];
  for (uint32_t& r : result) r = lanes;
  store_lanes(w.at<uint32_t>(i.dst), result, lanes);
}

void together(Warp&, const Instruction&, uint32_t) {}
}  // namespace

void add_warp(Forms& table) {
  const auto shuffles = [&](const char* name, Handler handler) {
    table[name] = {.shape = Shape::shuffle, .handler = handler, .flow = Flow::members};
  };
  shuffles("shfl.sync.up.b32", shuffle<Mode::up>);
  shuffles("shfl.sync.down.b32", shuffle<Mode::down>);
  shuffles("shfl.sync.bfly.b32", shuffle<Mode::butterfly>);
  shuffles("shfl.sync.idx.b32", shuffle<Mode::index>);
  table["vote.sync.ballot.b32"] = {.shape = Shape::vote, .handler = ballot, .flow = Flow::members, .a_bytes = 0};
  const auto votes = [&](const char* name, Handler handler) {
    table[name] = {.shape = Shape::vote, .handler = handler, .flow = Flow::members, .dst_bytes = 0, .a_bytes = 0};
  };
  votes("vote.sync.all.pred", vote<Vote::all>);
  votes("vote.sync.any.pred", vote<Vote::any>);
  votes("vote.sync.uni.pred", vote<Vote::uniform>);
  const auto members = [&](const std::string& name, Handler handler, int bytes = 4) {
    table[name] = {.shape = Shape::members, .handler = handler, .flow = Flow::members, .a_bytes = bytes};
  };
  for (const std::string type : {".u32", ".s32"}) members("redux.sync.add" + type, reduce<uint32_t, Add>);
  members("redux.sync.min.u32", reduce<uint32_t, Min>);
  members("redux.sync.max.u32", reduce<uint32_t, Max>);
  members("redux.sync.min.s32", reduce<int32_t, Min>);
  members("redux.sync.max.s32", reduce<int32_t, Max>);
  members("redux.sync.and.b32", reduce<uint32_t, And>);
  members("redux.sync.or.b32", reduce<uint32_t, Or>);
  members("redux.sync.xor.b32", reduce<uint32_t, Xor>);
  members("match.any.sync.b32", match_any<uint32_t>);
  members("match.any.sync.b64", match_any<uint64_t>, 8);
  table["activemask.b32"] = {.shape = Shape::plain, .handler = active_lanes};
  table["bar.warp.sync"] = {.shape = Shape::constant, .handler = together, .flow = Flow::members};
}

}  // namespace duet::softgpu
