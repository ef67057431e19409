// SPDX-License-Identifier: Apache-2.0
// The table in constant memory, where a warp that looks up one element has it in one read, and one that looks up 32 in
// 32. Each run copies the table there first, because it may be another in each: a row's time includes that copy.
#include "kernels/study/memory_kind.cuh"
#include "simt/constant.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int64_t kMaxSize = kMaxConstantBytes / int64_t{sizeof(float)};  // elements
DUET_CONSTANT(float, bank, kMaxSize);

struct ConstantTable {
  __device__ float operator[](int64_t i) const { return bank[i]; }
};

Plan study_memory_kind_lookup_constant(const MemoryKindLookup& p, GpuContext& gpu) {
  if (p.size > kMaxSize) return Unsupported{"a table of more than 64 KiB"};
  load_constant(bank);
  return [p, stream = gpu.stream()](Args t) {
    fill_constant(bank, t[MemoryKindLookup::table].as<const float>(), p.size, stream);
    launch_lookup(p, stream, ConstantTable{}, t);
  };
}
DUET_REGISTER(study_memory_kind_lookup_constant);
}  // namespace
}  // namespace duet::DUET_DEVICE
