// SPDX-License-Identifier: Apache-2.0
// gemm of i8 with sums in i32, for gemm_tuned.cpp.
#pragma once
#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/gemm/gemm.h"

namespace duet {

Plan gemm_int8(const Gemm& p, CpuContext& cpu);  // dtype i8

}  // namespace duet
