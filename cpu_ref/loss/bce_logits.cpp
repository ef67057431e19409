// SPDX-License-Identifier: Apache-2.0
// Reference for bce_logits and its backward: serial, in double, the formulas of the contract (ops/loss/bce_logits.h)
// and nothing else. The loss is one slice; backward a slice is a chunk of elements.
#include "ops/loss/bce_logits.h"

#include "core/registry.h"

namespace duet {

void BceLogits::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  // max(x, 0) - x t + log(1 + exp(-|x|)): no exponential overflows.
  BoundedSum sum(kRun);
  double rests = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double logit = in[x][i], up = std::max(logit, 0.0), hit = logit * in[t][i];
    const double power = std::exp(-std::abs(logit)), rest = std::log1p(power);
    rests += rest;
    sum.add(up - hit + rest,
            std::abs(hit) + std::abs(up - hit) + 4 * power / (1 + power) + 4 * rest + std::abs(up - hit + rest));
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, n));
  expect(loss, 0, sum.sum() / count, (sum.error() + rests + std::abs(sum.sum())) / count);
}
DUET_PROBLEM(BceLogits);

void BceLogitsBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double by = scale * (scaled ? in[loss_scale][0] : 1) / static_cast<double>(n);
  in_chunk(n, chunk, [&](int64_t i) {
    const double p = 1 / (1 + std::exp(-in[x][i])), target = in[t][i];
    expect(dx, i, by * (p - target), std::abs(by) * (p + std::abs(target)));
  });
}
DUET_PROBLEM(BceLogitsBackward);

}  // namespace duet
