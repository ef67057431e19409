// SPDX-License-Identifier: Apache-2.0
// What the error of a sum of few values is relative to, in the references of convolutions. Winograd's transforms mix
// neighbouring sums, so that the error of one is relative to the others as well. Of many values, neighbours have sums
// of about the same size. But activations behind relu and their gradients have many zeros, and a sum may have no value
// at all beside one that has: it comes out as a rounding error, not as 0.
#pragma once
#include <algorithm>

#include "ops/conv/conv2d.h"

namespace duet {

// Whether Winograd's algorithm serves p.
inline bool is_transformed(const Conv2d& p) {
  return p.r == 3 && p.s == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dil_h == 1 && p.dil_w == 1;
}

struct Neighbours {
  int64_t first_row, last_row, first_column, last_column;  // from the sum itself
};
// own, or for a sum of few `values` that are not 0 the largest of it and root_sum(row, column) of the neighbours.
template <class RootSum>
double with_neighbours(const Conv2d& p, double own, int64_t values, const Neighbours& near, const RootSum& root_sum) {
  constexpr int64_t kMany = 64;
  if (values >= kMany || !is_transformed(p)) return own;
  for (int64_t a = near.first_row; a <= near.last_row; ++a)
    for (int64_t b = near.first_column; b <= near.last_column; ++b)
      if (a != 0 || b != 0) own = std::max(own, root_sum(a, b));
  return own;
}

}  // namespace duet
