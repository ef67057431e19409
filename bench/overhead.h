// SPDX-License-Identifier: Apache-2.0
// What the harness adds to a sample, measured with an empty job.
#pragma once
#include "core/cpu_context.h"

namespace duet::bench {

// Seconds that the call scope reports for a plan that does nothing, minus the time of a bare function call.
double harness_overhead_s(CpuContext& cpu);

}  // namespace duet::bench
