// SPDX-License-Identifier: Apache-2.0
// The fused ops of this family by separate ops (ops/norm/unfused.h): their kernels, one after the other on one stream.
#include "ops/norm/unfused.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
Plan add_layernorm_unfused(const AddLayerNorm& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(add_layernorm_unfused);

Plan add_rmsnorm_unfused(const AddRmsNorm& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(add_rmsnorm_unfused);

Plan batchnorm_unfused(const BatchNorm& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(batchnorm_unfused);

Plan batchnorm_backward_unfused(const BatchNormBackward& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(batchnorm_backward_unfused);

Plan batchnorm_inference_unfused(const BatchNormInference& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(batchnorm_inference_unfused);
}  // namespace
}  // namespace duet::DUET_DEVICE
