// SPDX-License-Identifier: Apache-2.0
// cpu.unfused: the fused ops of this family by separate ops (ops/gemm/unfused.h).
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/gemm/unfused.h"

namespace duet {
namespace {

Plan linear_unfused(const Linear& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(linear_unfused);

Plan linear_backward_unfused(const LinearBackward& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(linear_backward_unfused);

Plan gelu_linear_backward_data_unfused(const GeluLinearBackwardData& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(gelu_linear_backward_data_unfused);

}  // namespace
}  // namespace duet
