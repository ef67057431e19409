// SPDX-License-Identifier: Apache-2.0
// The sizes at which losses that are means over all elements are tested and timed.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases mean_cases(Scale scale) {
  const Cases test{
      {"nothing", "n:0"},
      {"one element", "n:1"},
      {"three elements", "n:3"},
      {"a lane short of a warp", "n:31"},
      {"a lane over a warp", "n:33"},
      {"prime, longer than a block", "n:1031"},
      {"several tasks, the last short", "n:100003"},
  };
  const Cases standard{
      {"sentiment model, batch 512", "n:512"},
      {"MLP 784, batch 512, reconstructed", "n:401408"},  // 512 x 784
      {"64 MiB an f32 tensor: beyond the caches", "n:16777216"},
  };
  const Cases more{
      {"1 GiB an f32 tensor", "n:268435456"},
  };
  return across(kFloatTypes, by_scale(scale, test, standard, more));
}

}  // namespace duet
