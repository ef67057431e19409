// SPDX-License-Identifier: Apache-2.0
// The fused ops of this family by separate ops (ops/gemm/unfused.h): their kernels, one after the other on one stream.
#include "ops/gemm/unfused.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
Plan linear_unfused(const Linear& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(linear_unfused);

Plan linear_backward_unfused(const LinearBackward& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(linear_backward_unfused);

Plan gelu_linear_backward_data_unfused(const GeluLinearBackwardData& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(gelu_linear_backward_data_unfused);
}  // namespace
}  // namespace duet::DUET_DEVICE
