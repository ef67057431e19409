// SPDX-License-Identifier: Apache-2.0
// Reference for the studies of kinds of memory: serial, in double, the formula of the contract and nothing else.
#include "ops/study/memory_kind.h"

#include "core/op_traits.h"

namespace duet {

void MemoryKindFilter::reference(Inputs in, int64_t row, Expect& expect) const {
  for (int64_t j = 0; j < w; ++j) {
    double sum = 0;
    for (int64_t r = 0; r < kSide; ++r)
      for (int64_t s = 0; s < kSide; ++s) sum += in[weight][r * kSide + s] * in[x][(row + r) * (w + kSide - 1) + j + s];
    expect(y, row * w + j, sum);
  }
}
DUET_PROBLEM(MemoryKindFilter);

void MemoryKindLookup::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[table][static_cast<int64_t>(in[index][i])]); });
}
DUET_PROBLEM(MemoryKindLookup);
DUET_TRAITS(MemoryKindLookup);

}  // namespace duet
