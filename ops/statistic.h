// SPDX-License-Identifier: Apache-2.0
// The element type of statistics, losses, learning rates and other one-element tensors: f32; f64 where a tape runs in
// f64 to compute the reference of a training step.
#pragma once
#include "core/dtype.h"

namespace duet {

constexpr DType statistic_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace duet
