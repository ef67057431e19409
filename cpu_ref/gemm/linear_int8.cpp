// SPDX-License-Identifier: Apache-2.0
// Reference for linear_int8: serial, the formula of the contract (ops/gemm/linear_int8.h) and nothing else; sums in
// 64-bit integers. A slice is a row of y.
#include "ops/gemm/linear_int8.h"

#include "core/registry.h"

namespace duet {

void LinearInt8::reference(Inputs in_, int64_t row, Expect& expect) const {
  const auto* x_row = static_cast<const int8_t*>(in_[x].data) + row * in;
  const auto* w_row = static_cast<const int8_t*>(in_[w].data);
  for (int64_t o = 0; o < out; ++o, w_row += in) {
    int64_t sum = 0;
    for (int64_t p = 0; p < in; ++p) sum += x_row[p] * w_row[p];
    const double scaled = static_cast<double>(sum) * in_[scale_x][0] * in_[scale_w][o];
    expect(y, row * out + o, scaled + in_[bias][o], std::abs(scaled));
  }
}
DUET_PROBLEM(LinearInt8);

}  // namespace duet
