// SPDX-License-Identifier: Apache-2.0
// Reference for global_avg_pool and its backward: serial, in double, the formulas of the contract
// (ops/pool/global_avg_pool.h) and nothing else. A slice is a channel of an image.
#include "ops/pool/global_avg_pool.h"

#include "core/registry.h"

namespace duet {

void GlobalAvgPool::reference(Inputs in, int64_t i, Expect& expect) const {
  const int64_t image = i / depth(), channel = i % depth();
  BoundedSum sum(kRun);
  for (int64_t k = 0; k < pixels(); ++k) sum.add(in[x][(image * pixels() + k) * depth() + channel]);
  const auto count = static_cast<double>(std::max<int64_t>(1, pixels()));
  expect(y, i, sum.sum() / count, sum.error() / count);
}
DUET_PROBLEM(GlobalAvgPool);

void GlobalAvgPoolBackward::reference(Inputs in, int64_t i, Expect& expect) const {
  const int64_t depth = forward().depth(), image = i / depth, channel = i % depth, pixels = h * w;
  for (int64_t k = 0; k < pixels; ++k)
    expect(dx, (image * pixels + k) * depth + channel, in[dy][i] / static_cast<double>(pixels));
}
DUET_PROBLEM(GlobalAvgPoolBackward);

}  // namespace duet
