// SPDX-License-Identifier: Apache-2.0
// study/block_size_add on the CPU: the elements in as many equal parts as the case says.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/parts.h"
#include "ops/study/block_size.h"

namespace duet {
namespace {

Plan study_block_size_add_parts(const BlockSizeAdd& p, CpuContext& cpu) {
  if (p.division.parts == 0) return Unsupported{kNoParts};
  return [p, &cpu](Args t) {
    const auto* a = t[Add::a].as<const float>();
    const auto* b = t[Add::b].as<const float>();
    auto* c = t[Add::c].as<float>();
    in_parts(cpu, p.n, p.division.parts, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) c[i] = a[i] + b[i];
    });
  };
}
DUET_REGISTER(study_block_size_add_parts);  // cpu.parts

}  // namespace
}  // namespace duet
