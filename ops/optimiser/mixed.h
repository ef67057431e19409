// SPDX-License-Identifier: Apache-2.0
// Mixed precision (arXiv:1710.03740), which the optimisers share. The attribute `mixed` adds the tensors bad: (1) i32,
// and master: (n), the parameters that are updated. g and p are then in dtype, the state and master in f32, and p is
// master rounded to dtype. Where bad is not 0 nothing changes: gradients overflowed (unscale, ops/elementwise). In f16
// the loss is scaled, and g is in f32, which is what unscale writes.
#pragma once
#include <type_traits>
#include <vector>

#include "core/problem.h"
#include "ops/statistic.h"

namespace duet::mixed {

constexpr DType state_dtype(DType dtype, bool mixed) { return mixed ? statistic_dtype(dtype) : dtype; }
constexpr DType gradient_dtype(DType dtype, bool mixed) { return mixed && dtype == DType::f16 ? DType::f32 : dtype; }
template <class T, class S>  // gradient_dtype as a type, for parameters in T and their state in S
using Gradient = std::conditional_t<dtype_of<T> == DType::f16 && !std::is_same_v<T, S>, float, T>;
// p of n parameters is read and written; with mixed it is only written, which is half the traffic of an inout tensor.
inline TensorSpec parameters(Slot p, DType dtype, int64_t n, bool mixed) {
  return p.of(dtype, {n}).touching(mixed ? ceil_div(n, 2) : n);
}
inline void append(std::vector<TensorSpec>& all, Slot bad, Slot master, DType dtype, int64_t n) {
  all.push_back(bad.of(DType::i32, {1}, Fill::constant(0)));
  all.push_back(master.of(statistic_dtype(dtype), {n}));
}
// The updated value is expected in p, rounded to dtype, and with mixed in master as well.
inline void expect_parameter(Expect& expect, Slot p, Slot master, bool mixed, int64_t i, double want, double abs_sum) {
  if (mixed) expect(master, i, want, abs_sum);
  expect(p, i, want, abs_sum);
}

}  // namespace duet::mixed
