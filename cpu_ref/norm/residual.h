// SPDX-License-Identifier: Apache-2.0
// The sum of a residual connection as the references of add_layernorm and add_rmsnorm round it: to f32, then to dtype.
#pragma once
#include "core/dtype.h"

namespace duet {

inline double reference_residual(DType dtype, double x, double residual) {
  const double sum = x + residual;
  return dtype == DType::f64 ? sum : round_to(dtype, round_to(DType::f32, sum));
}

}  // namespace duet
