// SPDX-License-Identifier: Apache-2.0
// The element type of statistics, losses, rates and other one-element tensors: f32, and f64 where the tape runs in f64
// to check a training step.
#pragma once
#include "core/dtype.h"

namespace duet {

constexpr DType statistic_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace duet
