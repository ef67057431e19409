// SPDX-License-Identifier: Apache-2.0
// conv2d_bias by separate ops (ops/conv/unfused.h): their kernels, one after the other on one stream.
#include "ops/conv/unfused.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {
namespace {
Plan conv2d_bias_unfused(const Conv2dBias& p, GpuContext& gpu) { return unfused(p, gpu); }
DUET_REGISTER(conv2d_bias_unfused);
}  // namespace
}  // namespace duet::DUET_DEVICE
