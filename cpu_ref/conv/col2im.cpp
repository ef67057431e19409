// SPDX-License-Identifier: Apache-2.0
// Threads share the rows of x. A row is gathered: each tap that reads it adds a row of col, as whole vectors, to sums
// in L1. With a stride, the pixels whose column leaves the same remainder are reached by the same taps: each such phase
// has sums of its own, so that vectors remain adjacent, and the phases are woven into a row at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/col2im.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/conv/col2im.h"

#ifndef DUET_CPU_REF_CONV_COL2IM_
#define DUET_CPU_REF_CONV_COL2IM_
namespace duet::col2im {

// The phases of a row: how many there are, and the floats of each, which are whole vectors.
struct Phases {
  explicit Phases(const Im2col& p)
      : count(std::min(p.stride_w, std::max<int64_t>(1, p.w))),
        pitch((ceil_div(p.w, p.stride_w) / kLanes + 1) * kLanes) {}
  int64_t floats() const { return 2 * count * pitch; }  // sums, and the row that is woven of them
  static constexpr int64_t kLanes = 16;                 // of the widest vector
  int64_t count, pitch;
};

}  // namespace duet::col2im
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
using col2im::Phases;

// The sums of row `row` of a plane of x, phase by phase. col: (r s, ho, wo), of the plane.
void add_row_of_taps(const Im2col& p, const Phases& phases, const float* col, int64_t row, float* sums) {
  const hn::ScalableTag<float> d;
  const int64_t ho = p.ho(), wo = p.wo();
  std::fill_n(sums, phases.count * phases.pitch, 0.0f);
  for (int64_t u = 0; u < p.r; ++u) {
    const int64_t down = row + p.pad_h - u * p.dil_h, i = down / p.stride_h;
    if (down < 0 || down % p.stride_h != 0 || i >= ho) continue;
    for (int64_t v = 0; v < p.s; ++v) {
      // Value j belongs to the pixel in column j stride_w + shift, which is pixel j + offset of its phase.
      const int64_t shift = v * p.dil_w - p.pad_w;
      const int64_t phase = (shift % p.stride_w + p.stride_w) % p.stride_w, offset = (shift - phase) / p.stride_w;
      const int64_t begin = std::max<int64_t>(0, -offset);
      const int64_t end = std::min(wo, ceil_div(p.w - phase, p.stride_w) - offset);
      if (phase >= p.w || begin >= end) continue;
      float* to = sums + phase * phases.pitch + begin + offset;
      map<false>(
          d, end - begin, [](auto sum, auto term) HWY_ATTR { return hn::Add(sum, term); }, to,
          static_cast<const float*>(to), col + ((u * p.s + v) * ho + i) * wo + begin);
    }
  }
}

// The phases of a row as a row.
const float* weave(const Im2col& p, const Phases& phases, float* sums) {
  if (p.stride_w == 1) return sums;
  float* const row = sums + phases.count * phases.pitch;
#if HWY_TARGET != HWY_SCALAR
  if (p.stride_w == 2 && phases.count == 2) {
    const hn::ScalableTag<float> d;
    for (int64_t t = 0; t < phases.pitch; t += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreInterleaved2(hn::LoadU(d, sums + t), hn::LoadU(d, sums + phases.pitch + t), d, row + 2 * t);
    return row;
  }
#endif
  for (int64_t phase = 0; phase < phases.count; ++phase)
    for (int64_t t = 0; phase + t * p.stride_w < p.w; ++t) row[phase + t * p.stride_w] = sums[phase * phases.pitch + t];
  return row;
}

// Rows [first, last) of all planes of x.
void col2im_rows(const Im2col& p, const float* col, void* x, int64_t first, int64_t last, float* scratch) {
  const hn::ScalableTag<float> d;
  const Phases phases(p);
  const int64_t of_plane = p.r * p.s * p.ho() * p.wo();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      add_row_of_taps(p, phases, col + i / p.h * of_plane, i % p.h, scratch);
      map<false>(
          d, p.w, [](auto sum) HWY_ATTR { return sum; }, static_cast<T*>(x) + i * p.w, weave(p, phases, scratch));
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(col2im_rows);
}  // namespace

Col2im::Col2im(const Im2col& p, CpuContext& cpu, WorkspaceLayout& workspace)
    : p_(p), cpu_(&cpu), scratch_(cpu, workspace, col2im::Phases(p).floats()) {}

void Col2im::operator()(const Args& args, const float* col, void* x) const {
  cpu_->parallel_for(p_.c * p_.h, rows_per_chunk(p_.r * p_.s * p_.w), [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(col2im_rows)(p_, col, x, first, last, scratch_.of_this_thread(args));
  });
}

}  // namespace duet
#endif
