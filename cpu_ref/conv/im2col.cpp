// SPDX-License-Identifier: Apache-2.0
// Reference for im2col: the formula of the contract (ops/conv/im2col.h) and nothing else. A slice is a row of output
// pixels under one tap.
#include "ops/conv/im2col.h"

#include "core/registry.h"

namespace duet {

void Im2col::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t height = ho(), width = wo();
  const int64_t i = slice % height, of_col = slice / height;  // of_col: (n, c, r, s)
  const int64_t v = of_col % s, u = of_col / s % r, plane = of_col / s / r;
  const int64_t row = i * stride_h - pad_h + u * dil_h;
  for (int64_t j = 0; j < width; ++j) {
    const int64_t column = j * stride_w - pad_w + v * dil_w;
    const bool inside = row >= 0 && row < h && column >= 0 && column < w;
    expect(col, slice * width + j, inside ? in[x][(plane * h + row) * w + column] : 0);
  }
}
DUET_PROBLEM(Im2col);

}  // namespace duet
