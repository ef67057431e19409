// SPDX-License-Identifier: Apache-2.0
// scale_update on the host: a few scalars, so neither vectors nor threads. After an overflow the loss scale is halved,
// but stays a normal number; after `interval` good steps it is doubled, unless that would overflow.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/elementwise/scale_update.h"

namespace duet {
namespace {

Plan scale_update_tuned(const ScaleUpdate& p, CpuContext&) {
  using P = ScaleUpdate;
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  return [interval = p.interval](Args t) {
    float& scale = *t[P::scale].as<float>();
    int32_t& good = *t[P::good].as<int32_t>();
    if (*t[P::bad].as<const int32_t>() != 0) {
      scale = std::max(scale / 2, std::numeric_limits<float>::min());
      good = 0;
    } else if (++good >= interval) {
      if (std::isfinite(2 * scale)) scale *= 2;
      good = 0;
    }
  };
}
DUET_REGISTER(scale_update_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
