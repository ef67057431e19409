// SPDX-License-Identifier: Apache-2.0
// Reference for cache_append: the formula of the contract (ops/memory/cache_append.h) and nothing else. A slice is a
// token of x, or a row of the cache that stays.
#include "ops/memory/cache_append.h"

#include "core/registry.h"

namespace duet {

void CacheAppend::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto begin = [&](int64_t head) { return static_cast<int64_t>(in[position][head / H % B]); };
  if (slice < heads() * T) {
    const int64_t head = slice / T, row = begin(head) + slice % T;
    if (row < 0 || row >= C) return;
    for (int64_t d = 0; d < D; ++d) expect(cache, (head * C + row) * D + d, in[x][slice * D + d]);
    return;
  }
  const int64_t row = slice - heads() * T, t = row % C - begin(row / C);
  if (t >= 0 && t < T) return;
  for (int64_t d = 0; d < D; ++d) expect(cache, row * D + d, in[cache][row * D + d]);
}
DUET_PROBLEM(CacheAppend);

}  // namespace duet
