// SPDX-License-Identifier: Apache-2.0
// Weights in constant memory, where one read serves all lanes of a warp; the image by ordinary loads. Each run copies
// the weights there first, because they may be others in each: a row's time includes that copy of 100 bytes.
#include "kernels/study/memory_kind.cuh"
#include "simt/constant.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kCount = kSide * kSide;
DUET_CONSTANT(float, weights, kCount);

struct ConstantWeights {
  __device__ float operator[](int64_t i) const { return weights[i]; }
};

Plan study_memory_kind_filter_constant(const MemoryKindFilter& p, GpuContext& gpu) {
  load_constant(weights);
  return [p, stream = gpu.stream()](Args t) {
    fill_constant(weights, t[MemoryKindFilter::weight].as<const float>(), kCount, stream);
    launch(filter_kernel<Global, ConstantWeights>, filter_grid(p, stream),
           Global{t[MemoryKindFilter::x].as<const float>()}, ConstantWeights{}, t[MemoryKindFilter::y].as<float>(), p.h,
           p.w);
  };
}
DUET_REGISTER(study_memory_kind_filter_constant);
}  // namespace
}  // namespace duet::DUET_DEVICE
