// SPDX-License-Identifier: Apache-2.0
// References for conv2d and conv2d_bias: serial, in double, the formulas of the contracts (ops/conv/conv2d.h,
// conv2d_bias.h) and nothing else. A slice is a row of one output channel.
#include <algorithm>

#include "core/registry.h"
#include "cpu_ref/conv/few_values.h"
#include "ops/conv/conv2d_bias.h"

namespace duet {

namespace {
int64_t channel_of(const Conv2d& p, int64_t slice) { return slice / p.ho() % p.k; }

// claim(place in y, sum, root_sum) for each element of the slice; `sum` has its products, and what `start` has.
void sum_row(const Conv2d& p, Inputs in, int64_t slice, const TermSum& start, auto&& claim) {
  const auto X = in[Conv2d::x], W = in[Conv2d::filter];
  const bool last = p.layout == Layout::nhwc;
  const int64_t height = p.ho(), width = p.wo(), depth = p.group_c();
  const int64_t i = slice % height, out = channel_of(p, slice), image = slice / height / p.k;
  const int64_t first = out / p.group_k() * depth;  // the first input channel of the group

  // Returns how many are not 0.
  const auto add_products = [&](int64_t at_i, int64_t at_j, TermSum& sum) {
    int64_t values = 0;
    for (int64_t q = 0; q < depth; ++q)
      for (int64_t u = 0; u < p.r; ++u)
        for (int64_t v = 0; v < p.s; ++v) {
          const int64_t row = at_i * p.stride_h - p.pad_h + u * p.dil_h;
          const int64_t column = at_j * p.stride_w - p.pad_w + v * p.dil_w;
          if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
          const int64_t at = last ? ((image * p.h + row) * p.w + column) * p.c + first + q  //
                                  : ((image * p.c + first + q) * p.h + row) * p.w + column;
          const int64_t tap = last ? ((out * p.r + u) * p.s + v) * depth + q : ((out * depth + q) * p.r + u) * p.s + v;
          const double product = X[at] * W[tap];
          values += product != 0;
          sum.add(product);
        }
    return values;
  };
  for (int64_t j = 0; j < width; ++j) {
    TermSum sum = start;
    const int64_t values = add_products(i, j, sum);
    const double root_sum = with_neighbours(p, sum.root_sum(), values, {-1, 1, -1, 1}, [&](int64_t a, int64_t b) {
      TermSum other = start;
      add_products(i + a, j + b, other);
      return other.root_sum();
    });
    claim(last ? ((image * height + i) * width + j) * p.k + out : slice * width + j, sum, root_sum);
  }
}
}  // namespace

void Conv2d::reference(Inputs in, int64_t slice, Expect& expect) const {
  sum_row(*this, in, slice, {},
          [&](int64_t at, const TermSum& sum, double root_sum) { expect(y, at, sum.sum(), root_sum); });
}
DUET_PROBLEM(Conv2d);

void Conv2dBias::reference(Inputs in, int64_t slice, Expect& expect) const {
  TermSum start;
  start.add(in[bias][channel_of(conv, slice)]);
  sum_row(conv, in, slice, start, [&](int64_t at, const TermSum& sum, double root_sum) {
    expect(y, at, act == Act::relu ? std::max(sum.sum(), 0.0) : sum.sum(), root_sum);
  });
}
DUET_PROBLEM(Conv2dBias);

}  // namespace duet
