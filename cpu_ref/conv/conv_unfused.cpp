// SPDX-License-Identifier: Apache-2.0
// cpu.unfused: conv2d_bias by separate ops (ops/conv/unfused.h).
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/conv/unfused.h"

namespace duet {
namespace {

Plan conv2d_bias_unfused(const Conv2dBias& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(conv2d_bias_unfused);

}  // namespace
}  // namespace duet
