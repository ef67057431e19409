// SPDX-License-Identifier: Apache-2.0
// Mixed precision in the optimisers, outside the vector code (that part is mixed-inl.h).
#pragma once
#include "core/plan.h"

namespace duet {

// Whether this step is left out, because a gradient overflowed in f16.
template <class P>
bool step_is_skipped(const P& p, Args t) {
  return p.mixed && *t[P::bad].template as<const int32_t>() != 0;
}

}  // namespace duet
