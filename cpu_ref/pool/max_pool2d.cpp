// SPDX-License-Identifier: Apache-2.0
// Reference for max_pool2d, its backward and both as one problem: serial, in double, the formulas of the contracts
// (ops/pool/max_pool2d.h, max_pool2d_training.h) and nothing else. A slice is a row of y, or of dx.
#include "ops/pool/max_pool2d_training.h"

#include "core/registry.h"

namespace duet {
namespace {

struct Largest {
  double value = -INFINITY;
  int64_t at = -1;  // pixel of its plane
};
Largest largest(const Pool2d& p, const auto& x, int64_t image, int64_t channel, int64_t i, int64_t j) {
  Largest best;
  p.in_window(i, j, [&](int64_t at) {
    const double value = x[(image * p.h * p.w + at) * p.depth() + channel];
    if (best.at < 0 || value > best.value) best = {value, at};
  });
  return best;
}

// A row of dx. index(i, j, channel, out): the pixel that gets the gradient of output (i, j), which is element `out` of
// dy.
template <class P>
void claim_dx(const P& p, Inputs in, int64_t row, Expect& expect, auto&& index) {
  for (int64_t q = 0; q < p.w; ++q)
    for (int64_t channel = 0; channel < p.depth(); ++channel) {
      double sum = 0, abs_sum = 0;
      p.windows_of(row % p.h, q, [&](int64_t i, int64_t j) {
        const int64_t out = ((row / p.h * p.ho() + i) * p.wo() + j) * p.depth() + channel;
        if (index(i, j, channel, out) != row % p.h * p.w + q) return;
        sum += in[P::dy][out];
        abs_sum += std::abs(in[P::dy][out]);
      });
      expect(P::dx, (row * p.w + q) * p.depth() + channel, sum, abs_sum);
    }
}

}  // namespace

void MaxPool2d::reference(Inputs in, int64_t slice, Expect& expect) const {
  for (int64_t j = 0; j < wo(); ++j)
    for (int64_t channel = 0; channel < depth(); ++channel) {
      const Largest best = largest(*this, in[x], slice / ho(), channel, slice % ho(), j);
      const int64_t out = (slice * wo() + j) * depth() + channel;
      expect(y, out, best.value);
      if (indexed) expect(index, out, static_cast<double>(best.at));
    }
}
DUET_PROBLEM(MaxPool2d);

void MaxPool2dBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  claim_dx(*this, in, slice, expect,
           [&](int64_t, int64_t, int64_t, int64_t out) { return static_cast<int64_t>(in[index][out]); });
}
DUET_PROBLEM(MaxPool2dBackward);

void MaxPool2dTraining::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t rows = images() * ho();
  if (slice < rows) {
    for (int64_t j = 0; j < wo(); ++j)
      for (int64_t channel = 0; channel < depth(); ++channel)
        expect(y, (slice * wo() + j) * depth() + channel,
               largest(*this, in[x], slice / ho(), channel, slice % ho(), j).value);
    return;
  }
  const int64_t row = slice - rows;
  claim_dx(*this, in, row, expect, [&](int64_t i, int64_t j, int64_t channel, int64_t) {
    return largest(*this, in[x], row / h, channel, i, j).at;
  });
}
DUET_PROBLEM(MaxPool2dTraining);

}  // namespace duet
