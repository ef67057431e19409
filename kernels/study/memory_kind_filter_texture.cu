// SPDX-License-Identifier: Apache-2.0
// Image and weights through textures.
#include "kernels/study/memory_kind.cuh"
#include "simt/texture.h"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_filter_texture(const MemoryKindFilter& p, GpuContext& gpu) {
  const int64_t inputs = (p.h + kSide - 1) * (p.w + kSide - 1);
  if (inputs > max_texture_elements()) return Unsupported{"an image of more elements than a texture has"};
  return [p, inputs, stream = gpu.stream(), textures = Textures(gpu)](Args t) mutable {
    const Texture<float> x = textures.of(t[MemoryKindFilter::x].as<const float>(), inputs);
    const Texture<float> weight = textures.of(t[MemoryKindFilter::weight].as<const float>(), kSide * kSide);
    launch(filter_kernel<Texture<float>, Texture<float>>, filter_grid(p, stream), x, weight,
           t[MemoryKindFilter::y].as<float>(), p.h, p.w);
  };
}
DUET_REGISTER(study_memory_kind_filter_texture);
}  // namespace
}  // namespace duet::DUET_DEVICE
