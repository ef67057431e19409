// SPDX-License-Identifier: Apache-2.0
// Reference for top_k: serial, in double, the formula of the contract (ops/reduction/top_k.h) and nothing else. A slice
// is a row.
#include "ops/reduction/top_k.h"

#include <algorithm>
#include <numeric>

#include "core/registry.h"

namespace duet {

void TopK::reference(Inputs in, int64_t row, Expect& expect) const {
  std::vector<int64_t> columns(static_cast<size_t>(cols));
  std::iota(columns.begin(), columns.end(), 0);
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };
  std::partial_sort(columns.begin(), columns.begin() + k, columns.end(), [&](int64_t a, int64_t b) {
    if (ranking::above(at(a), at(b))) return true;
    return !ranking::above(at(b), at(a)) && a < b;
  });
  for (int64_t i = 0; i < k; ++i) {
    const int64_t c = columns[static_cast<size_t>(i)];
    expect(value, row * k + i, at(c));
    expect(index, row * k + i, static_cast<double>(c));
  }
}
DUET_PROBLEM(TopK);

}  // namespace duet
