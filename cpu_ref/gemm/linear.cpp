// SPDX-License-Identifier: Apache-2.0
// Reference for linear and its backward: serial, in double, the formulas of the contract (ops/gemm/linear.h) and
// nothing else. A slice is a row of y; backward, a row of dx or, after those, of dw with its element of dbias.
#include "ops/gemm/linear.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"

namespace duet {

void Linear::reference(Inputs given, int64_t row, Expect& expect) const {
  const auto X = given[x], W = given[w], B = given[bias];
  // The rounding of a product and the error of tanh are claimed in units of tolerance().abs_sum.
  const bool is_half = size_of(dtype) == 2;
  const double rounded = rounding_before_addition(dtype), unit = tolerance(y.index).abs_sum;
  for (int64_t o = 0; o < out; ++o) {
    ProductSum sum;
    sum.add(B[o]);
    for (int64_t p = 0; p < in; ++p) sum.add(X[row * in + p] * W[o * in + p]);
    const int64_t at = row * out + o;
    const double product = std::abs(sum.sum() - B[o]);
    if (act == Act::gelu) {
      const double approximate = is_half ? gelu::approximate_form_error(sum.sum()) : 0;
      expect(pre, at, sum.sum(), sum.root_sum() + rounded / tolerance(pre.index).abs_sum * product);
      expect(y, at, gelu::tanh_form(sum.sum()).value,
             sum.root_sum() + std::abs(sum.sum()) + (kMaxGeluSlope * rounded * product + approximate) / unit);
    } else {
      expect(y, at, act == Act::relu ? std::max(sum.sum(), 0.0) : sum.sum(), sum.root_sum() + rounded / unit * product);
    }
  }
}
DUET_PROBLEM(Linear);

void LinearBackward::reference(Inputs given, int64_t slice, Expect& expect) const {
  const auto X = given[x], W = given[w], Y = given[y], DY = given[dy];
  const auto g = [&](int64_t i, int64_t o) {
    const double gate = act == Act::none ? 1 : Y[i * out + o], d = DY[i * out + o];
    if (act == Act::gelu) {
      const gelu::Term slope = gelu::tanh_slope(gate);
      return gelu::Term{d * slope.value, std::abs(d) * slope.abs_sum};
    }
    return gate > 0 ? gelu::Term{d, std::abs(d)} : gelu::Term{0, 0};
  };
  std::vector<ProductSum> sum(static_cast<size_t>(in));
  const auto add_row = [&](const gelu::Term& factor, const Inputs::Values& values, int64_t row) {
    for (int64_t p = 0; p < in; ++p) {
      const double value = values[row * in + p];
      sum[static_cast<size_t>(p)].add(factor.value * value, factor.abs_sum * value);
    }
  };
  const auto claim_row = [&](Slot slot, int64_t row) {
    for (int64_t p = 0; p < in; ++p) {
      const ProductSum& s = sum[static_cast<size_t>(p)];
      expect(slot, row * in + p, s.sum(), s.root_sum());
    }
  };
  if (slice < n) {
    for (int64_t o = 0; o < out; ++o) add_row(g(slice, o), W, o);
    return claim_row(dx, slice);
  }
  const int64_t o = slice - n;
  ProductSum bias_sum;
  for (int64_t i = 0; i < n; ++i) {
    const gelu::Term factor = g(i, o);
    add_row(factor, X, i);
    bias_sum.add(factor.value, factor.abs_sum);
  }
  claim_row(dw, o);
  expect(dbias, o, bias_sum.sum(), bias_sum.root_sum());
}
DUET_PROBLEM(LinearBackward);

}  // namespace duet
