// SPDX-License-Identifier: Apache-2.0
// Layers whose sequences have lengths of their own, in cpu.tuned: the order in which their sequences are processed, and
// the zeros behind their last steps. Used by the four forward_by_* and backward_by_* files.
#pragma once
#include <algorithm>
#include <cstring>

#include "cpu_ref/recurrent/layer.h"

namespace duet::recurrent {

// The sequences of a layer, the longest first.
class Sorted {
 public:
  Sorted(const Layer& p, WorkspaceLayout& workspace) : p_(p), piece_(workspace.add<Sequence>(p.padded ? p.B : 0)) {}
  // All sequences, for one run. lengths: null for a layer without.
  Rows rows(const Args& args, const int32_t* lengths) const {
    if (!lengths) return {p_.T, 0};
    Sequence* all = args.workspace(piece_);
    for (int64_t b = 0; b < p_.B; ++b) all[b] = {b, p_.length_of(lengths[b])};
    std::sort(all, all + p_.B,
              [](const Sequence& x, const Sequence& y) { return x.steps != y.steps ? x.steps > y.steps : x.b < y.b; });
    return {p_.T, 0, all};
  }

 private:
  Layer p_;
  WorkspacePiece<Sequence> piece_;
};

inline void clear(void* data, DType dtype, int64_t first, int64_t count) {
  if (count > 0) std::memset(element(data, dtype, first), 0, static_cast<size_t>(count * size_of(dtype)));
}

// y and reserve of some sequences in one direction, behind their last steps.
inline void clear_padding(const Layer& p, const ForwardTensors& t, int64_t dir, const Rows& sequences, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    const Sequence s = sequences[i];
    for (int64_t time = s.steps; time < p.T; ++time) {
      clear(t.y, p.dtype, p.y_row(dir, time, s.b), p.H);
      if (!p.inference) clear(t.reserve, p.dtype, p.kept_row(dir, time, s.b), p.K() * p.H);
    }
  }
}

// dx of some sequences, behind their last steps.
inline void clear_padding(const Layer& p, const BackwardTensors& t, const Rows& sequences, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    const Sequence s = sequences[i];
    for (int64_t time = s.steps; time < p.T; ++time) clear(t.dx, p.dtype, (time * p.B + s.b) * p.I, p.I);
  }
}

}  // namespace duet::recurrent
