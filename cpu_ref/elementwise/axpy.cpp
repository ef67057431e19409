// SPDX-License-Identifier: Apache-2.0
// Reference for axpy: serial, in double, the formula of the contract (ops/elementwise/axpy.h) and nothing else. A slice
// is a chunk of elements.
#include "ops/elementwise/axpy.h"

#include "core/registry.h"

namespace duet {

void Axpy::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double factor = dtype == DType::f64 ? alpha : static_cast<float>(alpha);
  int exponent;
  const bool exact = factor == 0 || std::abs(std::frexp(factor, &exponent)) == 0.5;  // a power of two
  in_chunk(n, chunk, [&](int64_t i) {
    const double product = factor == 0 ? 0 : factor * in[x][i];
    expect(y, i, in[y][i] + product, exact ? 0 : std::abs(product));
  });
}
DUET_PROBLEM(Axpy);

}  // namespace duet
