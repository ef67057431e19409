// SPDX-License-Identifier: Apache-2.0
// The sizes at which losses that are means over all elements are tested and timed; each is a struct with a member n.
#pragma once
#include "core/problem.h"

namespace duet {

template <class P>
std::vector<Case<P>> mean_cases(Scale scale) {
  const auto sized = [](int64_t n) {
    P p;
    p.n = n;
    return p;
  };
  if (scale == Scale::test)
    return across(&P::dtype, kFloats,
                  {{"nothing", sized(0)},
                   {"one element", sized(1)},
                   {"three elements", sized(3)},
                   {"a lane short of a warp", sized(31)},
                   {"a lane over a warp", sized(33)},
                   {"prime, longer than a block", sized(1031)},
                   {"several tasks, the last short", sized(100003)}});
  std::vector<Case<P>> all{{"sentiment model, batch 512", sized(512)},
                           {"MLP 784, batch 512, reconstructed", sized(512 * 784)},
                           {"64 MiB an f32 tensor: beyond the caches", sized(1 << 24)}};
  if (scale == Scale::full) all.push_back({"1 GiB an f32 tensor", sized(1 << 28)});
  return across(&P::dtype, kFloats, all);
}

}  // namespace duet
