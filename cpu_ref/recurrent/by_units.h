// SPDX-License-Identifier: Apache-2.0
// How a step of a layer, mostly with large weights, is divided among all threads: by units, and by sequences where
// there are few units. Used by forward_by_units.cpp and backward_by_units.cpp.
#pragma once
#include <fmt/format.h>

#include "cpu_ref/recurrent/layer.h"
#include "cpu_ref/recurrent/strips.h"

namespace duet::recurrent {

// A task is a strip of units in one direction; where these are too few for the threads, a strip for a run of the
// sequences.
struct Task {
  int64_t dir, strip, unit, units, run, b0, rows;
};

struct Tasks {
  Strips units;  // packed r: a strip has the columns of its units
  int64_t D, B, runs, count, grain;

  Tasks(const Layer& p, int64_t products, int threads, bool pairs = false)
      : units{.lines = p.H, .k = pairs ? ceil_div(products, 2) : products, .pairs = pairs}, D(p.D()), B(p.B) {
    constexpr int64_t kMaxRunRows = 112;   // its sums stay in L1 or L2
    constexpr double kMinForkFlops = 1e6;  // of a step; with fewer, waking a thread costs more than it saves
    const int64_t strips = D * units.count(), wanted = ceil_div(int64_t{2} * threads, strips);
    runs = std::max(ceil_div(B, kMaxRunRows), std::min(wanted, ceil_div(B, units.kernel.rows)));
    count = strips * runs;
    const double flops = 2.0 * static_cast<double>(D * B * p.H) * static_cast<double>(products);
    grain = flops < kMinForkFlops ? count : 1;
  }
  Task task(int64_t i) const {
    const int64_t run = i % runs, strip = i / runs % units.count(), b0 = B * run / runs;
    const int64_t unit = strip * units.kernel.columns;
    return {.dir = i / runs / units.count(),
            .strip = strip,
            .unit = unit,
            .units = std::min(units.kernel.columns, units.lines - unit),
            .run = run,
            .b0 = b0,
            .rows = B * (run + 1) / runs - b0};
  }
  int64_t max_rows() const { return ceil_div(B, std::max<int64_t>(1, runs)); }
  // Floats (or pairs) from row to row of a matrix of n of them that tiles read along k: whole vectors. At a multiple of
  // 1 KiB the rows would share few sets of L1, so that is avoided.
  int64_t pitch(int64_t n) const {
    const int64_t whole = ceil_div(n, units.kernel.lanes) * units.kernel.lanes;
    return whole % 256 == 0 ? whole + 16 : whole;
  }
  std::string describe() const {
    return fmt::format("steps shared by {} strips of units x {} runs of sequences", units.count() * D, runs);
  }
};

}  // namespace duet::recurrent
