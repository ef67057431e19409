// SPDX-License-Identifier: Apache-2.0
// Reference for avg_pool2d and its backward: serial, in double, the formulas of the contract (ops/pool/avg_pool2d.h)
// and nothing else. A slice is a row of y; backward it is a row of dx.
#include "ops/pool/avg_pool2d.h"

#include "core/registry.h"

namespace duet {
namespace {

// What the window of output (i, j) is divided by.
double count_of(const Pool2d& p, bool count_pad, int64_t i, int64_t j) {
  int64_t count = 0;
  p.in_window(i, j, [&](int64_t) { ++count; });
  return static_cast<double>(std::max<int64_t>(1, count_pad ? p.r * p.s : count));
}

}  // namespace

void AvgPool2d::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t image = slice / ho(), i = slice % ho(), width = wo();
  for (int64_t j = 0; j < width; ++j)
    for (int64_t channel = 0; channel < depth(); ++channel) {
      double sum = 0, abs_sum = 0;
      in_window(i, j, [&](int64_t at) {
        const double value = in[x][(image * h * w + at) * depth() + channel];
        sum += value;
        abs_sum += std::abs(value);
      });
      const double count = count_of(*this, count_pad, i, j);
      expect(y, (slice * width + j) * depth() + channel, sum / count, abs_sum / count);
    }
}
DUET_PROBLEM(AvgPool2d);

void AvgPool2dBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t image = slice / h, p = slice % h;
  for (int64_t q = 0; q < w; ++q)
    for (int64_t channel = 0; channel < depth(); ++channel) {
      double sum = 0, abs_sum = 0;
      windows_of(p, q, [&](int64_t i, int64_t j) {
        const double passed =
            in[dy][((image * ho() + i) * wo() + j) * depth() + channel] / count_of(*this, count_pad, i, j);
        sum += passed;
        abs_sum += std::abs(passed);
      });
      expect(dx, (slice * w + q) * depth() + channel, sum, abs_sum);
    }
}
DUET_PROBLEM(AvgPool2dBackward);

}  // namespace duet
