// SPDX-License-Identifier: Apache-2.0
// Reference for study/pipeline: serial, in double, the formula of the contract and nothing else.
#include "ops/study/pipeline.h"

#include "core/op_traits.h"

namespace duet {

void Pipeline::reference(Inputs in, int64_t slice, Expect& expect) const {
  in_chunk(n, slice, [&](int64_t i) { expect(y, i, in[x][i] + static_cast<double>(rounds)); });
}
DUET_PROBLEM(Pipeline);
DUET_TRAITS(Pipeline);

}  // namespace duet
