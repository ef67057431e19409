// SPDX-License-Identifier: Apache-2.0
// Reference for gelu_linear_backward_data: serial, in double, the formulas of the contract (ops/gemm/gelu_linear.h) and
// nothing else. A slice is a row of dh or, after those, an element of dbias.
#include "ops/gemm/gelu_linear.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"
#include "ops/elementwise/gelu_formula.h"

namespace duet {
namespace {
// An element of dh, and its error before it or the sum is rounded to dtype: that of the sum, times the slope, and that
// of the slope.
struct Element {
  double value, error;
};
Element element_of(const ProductSum& sum, const SumError& of_sum, double h, double unit, bool is_half) {
  const gelu::Term slope = gelu::tanh_slope(h);
  const double size = std::abs(sum.sum()),
               of_slope = unit * gelu::slope_error(slope) + (is_half ? gelu::approximate_slope_error(h) : 0);
  const double error = of_sum.rel * size + of_sum.root_sum * sum.root_sum();
  return {slope.value * sum.sum(), (std::abs(slope.value) + of_slope) * error + of_slope * size};
}
}  // namespace

void GeluLinearBackwardData::reference(Inputs given, int64_t slice, Expect& expect) const {
  const auto DY = given[dy], W = given[w], H = given[h];
  const double rounded_sum = rounding_before_addition(dtype);
  const bool is_half = rounded_sum > 0;
  const SumError of_sum = product_error(static_cast<double>(out), 0, dtype, math, kDirect);
  if (slice < n) {
    std::vector<ProductSum> sums(static_cast<size_t>(in));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t p = 0; p < in; ++p) sums[static_cast<size_t>(p)].add(DY[slice * out + o] * W[o * in + p]);
    for (int64_t p = 0; p < in; ++p) {
      const int64_t at = slice * in + p;
      const Element e = element_of(sums[static_cast<size_t>(p)], of_sum, H[at], unit(), is_half);
      expect(dh, at, e.value, (e.error + rounded_sum * std::abs(e.value)) / unit());
    }
    return;
  }
  const int64_t p = slice - n;
  std::vector<double> column(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) column[static_cast<size_t>(o)] = W[o * in + p];
  ProductSum total;
  double squares = 0;  // of the errors of its terms
  for (int64_t i = 0; i < n; ++i) {
    ProductSum sum;
    for (int64_t o = 0; o < out; ++o) sum.add(DY[i * out + o] * column[static_cast<size_t>(o)]);
    const Element e = element_of(sum, of_sum, H[i * in + p], unit(), is_half);
    total.add(e.value);
    squares += e.error * e.error;
  }
  // The errors of the terms are independent of each other, as are their roundings to dtype, but for terms that are all
  // alike and round alike, and for what tf32 and matrix units cut off: that has a mean, a share of each term, and so
  // adds up to the same share of the total. `rounded` also holds for terms whose sums were rounded before: over all
  // mantissas the mean square of u / m is 0.54 u^2, and two of these are one u^2.
  const auto terms = static_cast<double>(n);
  const SumError of_total = sum_error(terms, unit(), kDirect);
  const double rounded = std::min(std::sqrt(terms), kDeviations / std::sqrt(3.0)) * unit_roundoff(dtype);
  const double mean = math == Math::tf32 || is_half ? of_sum.rel : 0;
  const double alike = are_alike(terms, total.sum(), total.root_sum()) ? unit_roundoff(dtype) + rounded_sum : 0;
  const double error =
      (of_total.rel + mean + alike) * std::abs(total.sum()) + (of_total.root_sum + rounded) * total.root_sum();
  expect(dbias, p, total.sum(), (error + std::sqrt(squares)) / unit());
}
DUET_PROBLEM(GeluLinearBackwardData);

}  // namespace duet
