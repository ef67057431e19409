// SPDX-License-Identifier: Apache-2.0
// Reference for study/prefetch: serial, in double, the formula of the contract and nothing else.
#include "ops/study/prefetch.h"

#include "core/op_traits.h"

namespace duet {

void Prefetch::reference(Inputs in, int64_t slice, Expect& expect) const {
  in_chunk(n * kCols, slice, [&](int64_t i) {
    const auto line = static_cast<int64_t>(in[index][i / kCols]);
    expect(y, i, in[x][line * kCols + i % kCols]);
  });
}
DUET_PROBLEM(Prefetch);
DUET_TRAITS(Prefetch);

}  // namespace duet
