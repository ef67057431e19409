// SPDX-License-Identifier: Apache-2.0
// f8e4m3 as bf16, which holds each of its values.
#pragma once
#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

// to[i] = from[i] for i < n, on all threads. NaN stays NaN.
void widen_to_bf16(const f8e4m3* from, int64_t n, bf16* to, CpuContext& cpu);

}  // namespace duet
