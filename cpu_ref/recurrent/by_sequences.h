// SPDX-License-Identifier: Apache-2.0
// How the sequences of a small layer are cut into slices, one thread's work for all steps.
#pragma once
#include <string>

#include "cpu_ref/recurrent/layer.h"
#include "cpu_ref/recurrent/strips.h"

namespace duet::recurrent {

constexpr int64_t kStepRows = 112;  // rows of gate gradients that one product with x and h takes

struct Slices {
  int64_t B, rows, count;  // most sequences of a slice
  int64_t ring;            // steps between two products for weight gradients

  // Register tiles are few where the packed weights fill L1, and more where they come from L2.
  Slices(const Layer& p, int threads, int64_t tasks_per_slice) : B(p.B) {
    constexpr int64_t kInL1 = 16384;  // floats, of L1 and what is next to it
    const Strips units{.lines = p.H, .k = p.I + p.H};
    const int64_t weights = parts_of(p.cell).count * units.columns() * units.k;
    rows = units.kernel.rows * (weights <= kInL1 ? 2 : 4);
    rows = std::clamp<int64_t>(ceil_div(B * tasks_per_slice, threads), 1, rows);
    count = ceil_div(B, rows);
    ring = std::max<int64_t>(1, kStepRows / rows);
  }
  int64_t row(int64_t slice) const { return B * slice / count; }
  std::string describe() const {
    return std::to_string(count) + " slices of " + std::to_string(rows) + " sequences or fewer";
  }
};

}  // namespace duet::recurrent
