// SPDX-License-Identifier: Apache-2.0
// Packs tensors that live at different times into one piece of memory. Tape::plan() calls it for the temporaries and
// workspaces of a step.
#pragma once
#include <cstdint>
#include <vector>

namespace duet {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps at which the tensor is first written and last read, both included
  int64_t offset = 0;       // the result
};

// Sets every offset so that no two tensors that live at the same time share a byte; returns the total bytes needed.
// The largest tensor is placed first, each at the lowest place that is free during its life (Pisarchyk and Lee,
// arXiv:2001.03288, "greedy by size"). Offsets are multiples of 256 and staggered within 4 KiB: otherwise tensors of
// equal size would start at the same offset within a page, and a load would wait for an unrelated store (4K aliasing).
int64_t pack(std::vector<Lifetime>& tensors);

}  // namespace duet
