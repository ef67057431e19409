// SPDX-License-Identifier: Apache-2.0
// Reference for max_pool2d and its backward: serial, in double, the formulas of the contract (ops/pool/max_pool2d.h)
// and nothing else. A slice is a row of y; backward it is a row of dx.
#include "ops/pool/max_pool2d.h"

#include "core/registry.h"

namespace duet {

void MaxPool2d::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t image = slice / ho(), i = slice % ho(), width = wo();
  for (int64_t j = 0; j < width; ++j)
    for (int64_t channel = 0; channel < depth(); ++channel) {
      double best = -INFINITY;
      int64_t best_at = -1;
      in_window(i, j, [&](int64_t at) {
        const double value = in[x][(image * h * w + at) * depth() + channel];
        if (best_at < 0 || value > best) {
          best = value;
          best_at = at;
        }
      });
      const int64_t out = (slice * width + j) * depth() + channel;
      expect(y, out, best);
      if (indexed) expect(index, out, static_cast<double>(best_at));
    }
}
DUET_PROBLEM(MaxPool2d);

void MaxPool2dBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t image = slice / h, p = slice % h;
  for (int64_t q = 0; q < w; ++q)
    for (int64_t channel = 0; channel < depth(); ++channel) {
      double sum = 0, abs_sum = 0;
      windows_of(p, q, [&](int64_t i, int64_t j) {
        const int64_t out = ((image * ho() + i) * wo() + j) * depth() + channel;
        if (static_cast<int64_t>(in[index][out]) != p * w + q) return;
        sum += in[dy][out];
        abs_sum += std::abs(in[dy][out]);
      });
      expect(dx, (slice * w + q) * depth() + channel, sum, abs_sum);
    }
}
DUET_PROBLEM(MaxPool2dBackward);

}  // namespace duet
