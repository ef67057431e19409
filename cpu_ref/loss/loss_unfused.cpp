// SPDX-License-Identifier: Apache-2.0
// cpu.unfused: cross_entropy_fused by separate ops (ops/loss/unfused.h).
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/loss/unfused.h"

namespace duet {
namespace {

Plan cross_entropy_fused_unfused(const CrossEntropyFused& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(cross_entropy_fused_unfused);

}  // namespace
}  // namespace duet
