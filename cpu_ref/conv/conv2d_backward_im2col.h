// SPDX-License-Identifier: Apache-2.0
// The gradient of the input by the matrix of columns of one image after the other. cpu.im2col is this alone; cpu.tuned
// takes it where it is faster.
#pragma once
#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/conv/conv2d.h"

namespace duet {

// p: nchw, of f32, bf16 or f16.
Plan data_image_by_image(const Conv2d& p, CpuContext& cpu);

}  // namespace duet
