// SPDX-License-Identifier: Apache-2.0
// Reference for both gradients of conv2d: serial, in double, the formulas of the contract (ops/conv/conv2d_backward.h)
// and nothing else. A slice is a row of taps of dw, or a row of one channel of dx.
#include "ops/conv/conv2d_backward.h"

#include "core/registry.h"

namespace duet {

void Conv2dBackwardFilter::reference(Inputs in, int64_t slice, Expect& expect) const {
  const Conv2d& p = conv;
  const auto X = in[x], Y = in[dy];
  const bool last = p.layout == Layout::nhwc;
  const int64_t height = p.ho(), width = p.wo(), depth = p.group_c();
  const int64_t u = slice % p.r, q = slice / p.r % depth, out = slice / p.r / depth;
  const int64_t channel = out / p.group_k() * depth + q;

  for (int64_t v = 0; v < p.s; ++v) {
    TermSum sum(static_cast<int64_t>(kLongestChain));
    double added = 0;
    for (int64_t image = 0; image < p.n; ++image)
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t row = i * p.stride_h - p.pad_h + u * p.dil_h, column = j * p.stride_w - p.pad_w + v * p.dil_w;
          if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
          const int64_t at = last ? ((image * p.h + row) * p.w + column) * p.c + channel
                                  : ((image * p.c + channel) * p.h + row) * p.w + column;
          const int64_t from =
              last ? ((image * height + i) * width + j) * p.k + out : ((image * p.k + out) * height + i) * width + j;
          sum.add(Y[from] * X[at]);
          ++added;
        }
    const double root_sum =
        are_alike(added, sum.sum(), sum.root_sum())
            ? root_sum_of_alike(terms(), sum.sum(), sum.root_sum(), p.dtype, p.math, p.growth(), kLongestChain)
            : sum.root_sum();
    expect(dw, last ? ((out * p.r + u) * p.s + v) * depth + q : slice * p.s + v, sum.sum(), root_sum);
  }
}
DUET_PROBLEM(Conv2dBackwardFilter);

void Conv2dBackwardData::reference(Inputs in, int64_t slice, Expect& expect) const {
  const Conv2d& p = conv;
  const auto W = in[filter], Y = in[dy];
  const bool last = p.layout == Layout::nhwc;
  const int64_t height = p.ho(), width = p.wo(), depth = p.group_c();
  const int64_t row = slice % p.h, channel = slice / p.h % p.c, image = slice / p.h / p.c;
  const int64_t first = channel / std::max<int64_t>(1, depth) * p.group_k(), q = channel % depth;

  for (int64_t column = 0; column < p.w; ++column) {
    TermSum sum;
    for (int64_t out = first; out < first + p.group_k(); ++out)
      for (int64_t u = 0; u < p.r; ++u)
        for (int64_t v = 0; v < p.s; ++v) {
          const int64_t down = row + p.pad_h - u * p.dil_h, across = column + p.pad_w - v * p.dil_w;
          if (down < 0 || across < 0 || down % p.stride_h != 0 || across % p.stride_w != 0) continue;
          const int64_t i = down / p.stride_h, j = across / p.stride_w;
          if (i >= height || j >= width) continue;
          const int64_t from =
              last ? ((image * height + i) * width + j) * p.k + out : ((image * p.k + out) * height + i) * width + j;
          const int64_t tap = last ? ((out * p.r + u) * p.s + v) * depth + q : ((out * depth + q) * p.r + u) * p.s + v;
          sum.add(Y[from] * W[tap]);
        }
    expect(dx, last ? ((image * p.h + row) * p.w + column) * p.c + channel : slice * p.w + column, sum.sum(),
           sum.root_sum());
  }
}
DUET_PROBLEM(Conv2dBackwardData);

}  // namespace duet
