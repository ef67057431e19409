// SPDX-License-Identifier: Apache-2.0
// What the harness itself adds to a sample: an empty job timed like any other.
#pragma once
#include "core/cpu_context.h"

namespace duet::bench {

// Seconds that the call scope reports for a plan that does nothing, beyond calling a bare function.
double harness_overhead_s(CpuContext& cpu);

}  // namespace duet::bench
