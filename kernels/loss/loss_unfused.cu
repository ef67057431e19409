// SPDX-License-Identifier: Apache-2.0
// cross_entropy_fused by separate ops (ops/loss/unfused.h): their kernels, one after the other on one stream.
#include "ops/loss/unfused.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
Plan cross_entropy_fused_unfused(const CrossEntropyFused& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(cross_entropy_fused_unfused);
}  // namespace
}  // namespace duet::DUET_DEVICE
