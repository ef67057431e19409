// SPDX-License-Identifier: Apache-2.0
// How a layer with small weights is divided: into slices of the sequences, each of which one thread takes through all
// steps. Used by forward_by_sequences.cpp and backward_by_sequences.cpp.
#pragma once
#include <string>

#include "cpu_ref/recurrent/layer.h"
#include "cpu_ref/recurrent/strips.h"

namespace duet::recurrent {

constexpr int64_t kProductRows = 112;  // rows of gate gradients that one product with x and h takes

struct Slices {
  int64_t B, rows, count;  // rows: sequences of a slice, at most
  int64_t ring;            // backward: steps between two products for the gradients of the weights

  // A slice is two register tiles high where the packed weights fit L1, and four where they come from L2.
  Slices(const Layer& p, int threads, int64_t tasks_per_slice) : B(p.B) {
    constexpr int64_t kInL1 = 16384;  // floats of weights that count as in L1
    const Strips units{.lines = p.H, .k = p.I + p.H};
    const int64_t weights = parts_of(p.cell).count * units.columns() * units.k;
    rows = units.kernel.rows * (weights <= kInL1 ? 2 : 4);
    rows = std::clamp<int64_t>(ceil_div(B * tasks_per_slice, threads), 1, rows);
    count = ceil_div(B, rows);
    ring = std::max<int64_t>(1, kProductRows / rows);
  }
  int64_t row(int64_t slice) const { return B * slice / count; }
  std::string describe() const {
    return std::to_string(count) + " slices of " + std::to_string(rows) + " sequences or fewer";
  }
};

}  // namespace duet::recurrent
