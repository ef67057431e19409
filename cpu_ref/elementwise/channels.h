// SPDX-License-Identifier: Apache-2.0
// How the tuned code of quantisation walks a tensor (outer, c, inner) whose channels have a scale and a zero point
// each: by planes where they are long; else along tables that hold both for each element and repeat along the tensor.
// Start at channel_plan; channels-inl.h has the loops.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"

namespace duet {

struct ChannelCuts {
  static constexpr int64_t kMinLongPlane = 32, kMinWidth = 2048;  // elements

  int64_t c, inner;
  int64_t width = 0;  // elements of a table: whole periods of (c, inner); 0 with long planes
  WorkspacePiece<float> scale_table;
  WorkspacePiece<int32_t> zero_table;

  ChannelCuts(int64_t elements, int64_t channels, int64_t plane, WorkspaceLayout& workspace)
      : c(channels), inner(plane) {
    if (long_planes() || elements == 0) return;
    const int64_t period = c * inner;
    width = period * std::min(elements / period, ceil_div(kMinWidth, period));
    if (expands()) {
      scale_table = workspace.add<float>(width);
      zero_table = workspace.add<int32_t>(width);
    }
  }
  bool long_planes() const { return inner >= kMinLongPlane; }
  bool expands() const { return width > 0 && (inner > 1 || width > c); }

  struct Tables {
    const float* scale;
    const int32_t* zero;
  };
  // The tables of a run: the tensors themselves, or an expansion of them in the workspace.
  Tables tables(const Args& t, const float* scale, const int32_t* zero) const {
    if (!expands()) return {scale, zero};
    float* scales = t.workspace(scale_table);
    int32_t* zeros = t.workspace(zero_table);
    const int64_t period = c * inner;
    for (int64_t k = 0; k < c; ++k) {
      std::fill_n(scales + k * inner, inner, scale[k]);
      std::fill_n(zeros + k * inner, inner, zero[k]);
    }
    for (int64_t i = period; i < width; i += period) {
      std::copy_n(scales, period, scales + i);
      std::copy_n(zeros, period, zeros + i);
    }
    return {scales, zeros};
  }
};

// The plan of an op P of this kind. element_bytes: what it reads and writes for each element. Threads share the
// elements in chunks: chunk(p, t, cuts, tables, first, last, stream).
template <class P, class Chunk>
Plan channel_plan(const P& p, CpuContext& cpu, int64_t element_bytes, const Chunk& chunk) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.elements() * element_bytes);
  WorkspaceLayout workspace;
  const ChannelCuts cuts(p.elements(), p.c, p.inner, workspace);
  const auto run = [p, cuts, stream, chunk, &cpu](Args t) {
    if (p.elements() == 0) return;
    const auto tables = cuts.tables(t, t[P::scale].template as<const float>(), t[P::zero].template as<const int32_t>());
    parallel_chunks(cpu, p.elements(),
                    [&](int64_t first, int64_t last) { chunk(p, t, cuts, tables, first, last, stream); });
  };
  return Plan(run).with(std::move(workspace));
}

}  // namespace duet
