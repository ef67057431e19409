// SPDX-License-Identifier: Apache-2.0
// Mixed precision's other half on the CPU: whether a step is taken.
#pragma once
#include "core/plan.h"

namespace duet {

template <class P>
bool skips(const P& p, Args t) {
  return p.mixed && *t[P::bad].template as<const int32_t>() != 0;
}

}  // namespace duet
