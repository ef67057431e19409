// SPDX-License-Identifier: Apache-2.0
// Reference for conv2d: serial, in double, the formula of the contract (ops/conv/conv2d.h) and nothing else. A slice is
// a row of one output channel.
#include "ops/conv/conv2d.h"

#include "core/registry.h"

namespace duet {

void Conv2d::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto X = in[x], W = in[filter];
  const bool last = layout == Layout::nhwc;
  const int64_t height = ho(), width = wo(), depth = group_c();
  const int64_t i = slice % height, out = slice / height % k, image = slice / height / k;
  const int64_t first = out / group_k() * depth;  // the first input channel of the group

  for (int64_t j = 0; j < width; ++j) {
    TermSum sum;
    for (int64_t q = 0; q < depth; ++q)
      for (int64_t u = 0; u < r; ++u)
        for (int64_t v = 0; v < s; ++v) {
          const int64_t row = i * stride_h - pad_h + u * dil_h, column = j * stride_w - pad_w + v * dil_w;
          if (row < 0 || row >= h || column < 0 || column >= w) continue;
          const int64_t at = last ? ((image * h + row) * w + column) * c + first + q  //
                                  : ((image * c + first + q) * h + row) * w + column;
          const int64_t tap = last ? ((out * r + u) * s + v) * depth + q : ((out * depth + q) * r + u) * s + v;
          sum.add(X[at] * W[tap]);
        }
    expect(y, last ? ((image * height + i) * width + j) * k + out : slice * width + j, sum.sum(), sum.root_sum());
  }
}
DUET_PROBLEM(Conv2d);

}  // namespace duet
