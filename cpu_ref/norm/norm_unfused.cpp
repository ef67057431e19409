// SPDX-License-Identifier: Apache-2.0
// cpu.unfused: the fused ops of this family by separate ops (ops/norm/unfused.h).
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/norm/unfused.h"

namespace duet {
namespace {

Plan add_layernorm_unfused(const AddLayerNorm& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(add_layernorm_unfused);

Plan add_rmsnorm_unfused(const AddRmsNorm& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(add_rmsnorm_unfused);

Plan batchnorm_unfused(const BatchNorm& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(batchnorm_unfused);

Plan batchnorm_backward_unfused(const BatchNormBackward& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(batchnorm_backward_unfused);

Plan batchnorm_inference_unfused(const BatchNormInference& p, CpuContext& cpu) { return unfused(p, cpu); }
DUET_REGISTER(batchnorm_inference_unfused);

}  // namespace
}  // namespace duet
