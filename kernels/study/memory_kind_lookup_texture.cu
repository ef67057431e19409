// SPDX-License-Identifier: Apache-2.0
// The table through a texture.
#include "kernels/study/memory_kind.cuh"
#include "simt/texture.h"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_lookup_texture(const MemoryKindLookup& p, GpuContext& gpu) {
  if (p.size > max_texture_elements()) return Unsupported{"a table of more elements than a texture has"};
  return [p, stream = gpu.stream(), textures = Textures(gpu)](Args t) mutable {
    launch_lookup(p, stream, textures.of(t[MemoryKindLookup::table].as<const float>(), p.size), t);
  };
}
DUET_REGISTER(study_memory_kind_lookup_texture);
}  // namespace
}  // namespace duet::DUET_DEVICE
