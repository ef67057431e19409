// SPDX-License-Identifier: Apache-2.0
// attention of few queries (decode.h). A thread takes a part of the keys of one head of k and v, with all query rows
// that share the head, in blocks that stay in L1 and L2: each byte of k and v is read from memory once. Each part
// leaves the maximum, the sum and the weighted sum of v for every row; combine_row puts the parts together. Start
// reading at decode_part.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/attention/decode.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cpu_ref/attention/decode.h"
#include "cpu_ref/attention/lengths.h"
#include "cpu_ref/attention/scores-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/scratch.h"

#ifndef DUET_CPU_REF_ATTENTION_DECODE_ONCE_
#define DUET_CPU_REF_ATTENTION_DECODE_ONCE_
namespace duet::decode {

constexpr int64_t kKeys = 64;    // of a block: 32 KiB of k where D is 128
constexpr int64_t kMaxRows = 8;  // query rows that share a head of k and v
constexpr int64_t kRowTile = 4;  // rows whose sums are in registers together
constexpr int64_t kKeyTile = 4;  // keys whose v are added to the sums together
constexpr int64_t kMaxLanes = 16;

struct Layout {
  int64_t D, rows, padded, parts;  // padded: D in whole vectors of any instruction set; parts: of the keys of a head

  Layout(const Attention& p, int64_t parts)
      : D(p.D), rows(p.group() * p.Tq), padded(ceil_div(p.D, kMaxLanes) * kMaxLanes), parts(parts) {}
  // What a part leaves for each row: padded sums of v, then the maximum (of scores times factor) and the sum.
  int64_t row_floats() const { return padded + kMaxLanes; }
  int64_t part_floats() const { return rows * row_floats(); }
  int64_t scratch_floats() const { return rows * (padded + kKeys); }
};

}  // namespace duet::decode
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
using decode::kKeys, decode::kKeyTile, decode::kRowTile, decode::Layout;

// s[r kKeys] = q[r] . key for kRows rows of q, `padded` floats apart.
template <int kRows, class T>
HWY_INLINE void scores_of_key(const float* q, int64_t padded, const T* key, int64_t D, float* s) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
  int64_t c = 0;
  for (; c + lanes <= D; c += lanes) {
    const auto k = load_as_f32(d, key + c);
    for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::LoadU(d, q + r * padded + c), k, sums[r]);
  }
  if (c < D) {
    const auto k = load_as_f32(d, key + c, D - c);
    for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::LoadU(d, q + r * padded + c), k, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) s[r * kKeys] = hn::GetLane(hn::SumOfLanes(d, sums[r]));
}

// sums[r] += sum_j p[r kKeys + j] v[j] for kRows rows of `pitch` floats and kCount keys.
template <int kRows, int kCount, class T>
HWY_INLINE void add_values(const float* p, const T* v, int64_t D, float* sums, int64_t pitch) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto column = [&](int64_t c, auto... left) HWY_ATTR {
    hn::Vec<decltype(d)> value[kCount];
    for (int j = 0; j < kCount; ++j) value[j] = load_as_f32(d, v + j * D + c, left...);
    for (int r = 0; r < kRows; ++r) {
      auto sum = hn::LoadU(d, sums + r * pitch + c);
      for (int j = 0; j < kCount; ++j) sum = hn::MulAdd(hn::Set(d, p[r * kKeys + j]), value[j], sum);
      hn::StoreU(sum, d, sums + r * pitch + c);
    }
  };
  int64_t c = 0;
  for (; c + lanes <= D; c += lanes) column(c);
  if (c < D) column(c, D - c);
}

// Calls f.operator()<kRows>(first) for tiles of kRowTile rows or fewer.
template <class F>
HWY_INLINE void for_row_tiles(int64_t rows, F&& f) {
  int64_t r = 0;
  for (; r + kRowTile <= rows; r += kRowTile) f.template operator()<kRowTile>(r);
  switch (rows - r) {
    case 1:
      return f.template operator()<1>(r);
    case 2:
      return f.template operator()<2>(r);
    case 3:
      return f.template operator()<3>(r);
    default:
      return;
  }
}

// Keys [first, last) of a head. q: (rows, D); k, v: (Tk, D). to: what the part leaves. scratch: Layout::scratch_floats.
template <class T>
void decode_keys(const Layout& l, float factor, const T* q, const T* k, const T* v, int64_t first, int64_t last,
                 float* to, float* scratch) {
  const int64_t D = l.D, pitch = l.row_floats();
  float *wide_q = scratch, *s = wide_q + l.rows * l.padded;
  widen_rows(q, D, l.rows, D, l.padded, wide_q);
  for (int64_t r = 0; r < l.rows; ++r) {
    clear(to + r * pitch, 0, l.padded);
    to[r * pitch + l.padded] = -INFINITY;
    to[r * pitch + l.padded + 1] = 0;
  }
  for (int64_t j0 = first; j0 < last; j0 += kKeys) {
    const int64_t keys = std::min(kKeys, last - j0);
    for_row_tiles(l.rows, [&]<int kRows>(int64_t r) HWY_ATTR {
      for (int64_t j = 0; j < keys; ++j)
        scores_of_key<kRows>(wide_q + r * l.padded, l.padded, k + (j0 + j) * D, D, s + r * kKeys + j);
    });
    // The running maximum and sum of each row, and its powers in place of the scores.
    for (int64_t r = 0; r < l.rows; ++r) {
      float &top = to[r * pitch + l.padded], &sum = to[r * pitch + l.padded + 1];
      const float before = top;
      top = std::max(before, max_product(s + r * kKeys, keys, factor));
      const float change = std::exp2(before - top);
      sum = sum * change + powers(s + r * kKeys, keys, factor, top);
      if (change != 1) scale_row(to + r * pitch, l.padded, change);
    }
    for_row_tiles(l.rows, [&]<int kRows>(int64_t r) HWY_ATTR {
      int64_t j = 0;
      for (; j + kKeyTile <= keys; j += kKeyTile)
        add_values<kRows, kKeyTile>(s + r * kKeys + j, v + (j0 + j) * D, D, to + r * pitch, pitch);
      for (; j < keys; ++j) add_values<kRows, 1>(s + r * kKeys + j, v + (j0 + j) * D, D, to + r * pitch, pitch);
    });
  }
}

// item: part of a head of k and v.
void decode_part(const Attention& p, Args t, const Layout& l, int64_t item, float* parts, float* scratch) {
  using A = Attention;
  const int64_t kv = item / l.parts, part = item % l.parts, keys = KeyLengths(p, t, A::lengths)[kv / p.kv_heads()];
  const auto factor = static_cast<float>(p.factor() * std::numbers::log2e);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    decode_keys(l, factor, t[A::q].as<const T>() + kv * l.rows * p.D, t[A::k].as<const T>() + kv * p.Tk * p.D,
                t[A::v].as<const T>() + kv * p.Tk * p.D, keys * part / l.parts, keys * (part + 1) / l.parts,
                parts + item * l.part_floats(), scratch);
  });
}

// y and lse of query row `row` of all. parts: as decode_part leaves them.
void combine_row(const Attention& p, Args t, const Layout& l, int64_t row, float* parts) {
  using A = Attention;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t kv = row / l.rows;
  float* const of_row = parts + kv * l.parts * l.part_floats() + row % l.rows * l.row_floats();
  const auto part = [&](int64_t i) { return of_row + i * l.part_floats(); };
  float top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < l.parts; ++i) top = std::max(top, part(i)[l.padded]);
  for (int64_t i = 0; i < l.parts; ++i) {
    float& weight = part(i)[l.padded];
    weight = std::exp2(weight - top);
    sum += weight * part(i)[l.padded + 1];
  }
  const auto scale = hn::Set(d, 1 / sum);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    T* const y = t[A::y].as<T>() + row * p.D;
    for (int64_t c = 0; c < p.D; c += lanes) {
      auto value = hn::Zero(d);
      for (int64_t i = 0; i < l.parts; ++i)
        value = hn::MulAdd(hn::Set(d, part(i)[l.padded]), hn::LoadU(d, part(i) + c), value);
      store_f32_as(d, hn::Mul(value, scale), y + c, p.D - c);
    }
  });
  t[A::lse].as<float>()[row] = (top + std::log2(sum)) * std::numbers::ln2_v<float>;
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(decode_part);
HWY_EXPORT(combine_row);
}  // namespace

bool is_decode(const Attention& p) {
  constexpr int64_t kMinKeys = 64;
  const int64_t rows = p.group() * p.Tq;
  return !p.causal && rows > 0 && rows <= decode::kMaxRows && p.Tk >= kMinKeys;
}

Plan attention_decode(const Attention& p, CpuContext& cpu) {
  // Parts for all threads, none so short that putting them together takes a visible part of the time.
  constexpr int64_t kMinKeys = 256;
  const int64_t heads = p.B * p.kv_heads();
  const int64_t wanted = cpu.threads() == 1 ? 1 : ceil_div(4 * cpu.threads(), std::max<int64_t>(1, heads));
  const decode::Layout layout(p, std::clamp<int64_t>(p.Tk / kMinKeys, 1, wanted));
  WorkspaceLayout workspace;
  const auto parts = workspace.add<float>(heads * layout.parts * layout.part_floats());
  const Scratch scratch(cpu, workspace, layout.scratch_floats());
  return Plan([p, layout, parts, scratch, heads, &cpu](Args t) {
           float* const left = t.workspace(parts);
           cpu.parallel_for(heads * layout.parts, 1, [&](int64_t first, int64_t last) {
             for (int64_t i = first; i < last; ++i)
               HWY_DYNAMIC_DISPATCH(decode_part)(p, t, layout, i, left, scratch.of_this_thread(t));
           });
           constexpr int64_t kRowsOfATask = 64;
           cpu.parallel_for(heads * layout.rows, kRowsOfATask, [&](int64_t first, int64_t last) {
             for (int64_t row = first; row < last; ++row) HWY_DYNAMIC_DISPATCH(combine_row)(p, t, layout, row, left);
           });
         })
      .with("keys of a head in " + std::to_string(layout.parts) + " parts", std::move(workspace));
}

}  // namespace duet
#endif
