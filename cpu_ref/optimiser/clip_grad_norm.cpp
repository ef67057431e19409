// SPDX-License-Identifier: Apache-2.0
// Reference for clip_grad_norm: serial, in double, the formula of the contract (ops/optimiser/clip_grad_norm.h) and
// nothing else. A slice is a chunk of elements.
#include "ops/optimiser/clip_grad_norm.h"

#include "core/registry.h"

namespace duet {

void ClipGradNorm::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double scale = std::min(1.0, max_norm / (in[norm][0] + kGuard));
  in_chunk(n, chunk, [&](int64_t i) { expect(g, i, in[g][i] * scale); });
}
DUET_PROBLEM(ClipGradNorm);

}  // namespace duet
