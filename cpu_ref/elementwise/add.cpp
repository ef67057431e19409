// SPDX-License-Identifier: Apache-2.0
// Reference for add: serial, in double, the formula of the contract (ops/elementwise/add.h) and nothing else. A slice
// is a chunk of elements.
#include "ops/elementwise/add.h"

#include <algorithm>

#include "core/registry.h"

namespace duet {

void Add::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const double sum = in[a][i] + in[b][i];
    expect(c, i, act == Act::relu ? std::max(sum, 0.0) : sum);
  });
}
DUET_PROBLEM(Add);

}  // namespace duet
