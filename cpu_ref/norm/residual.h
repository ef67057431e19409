// SPDX-License-Identifier: Apache-2.0
// The sum of a residual connection as the references of add_layernorm and add_rmsnorm round it: to f32, then to the
// dtype in which tensors are stored. On a reference tape that is f64, and nothing is rounded.
#pragma once
#include "core/dtype.h"

namespace duet {

inline double reference_residual(DType stored, double x, double residual) {
  const double sum = x + residual;
  return stored == DType::f64 ? sum : round_to(stored, round_to(DType::f32, sum));
}

}  // namespace duet
