// SPDX-License-Identifier: Apache-2.0
// The shapes at which global_avg_pool and its backward pass are tested and timed, in both layouts.
#pragma once
#include "ops/conv/conv2d.h"  // kLayouts

namespace duet {

inline Cases global_avg_pool_cases(Scale scale) {
  const Cases test{
      {"one pixel", "n:1 c:1 h:1 w:1"},
      {"no image", "n:0 c:3 h:5 w:7"},
      {"no channel", "n:2 c:0 h:5 w:7"},
      {"no pixel: the mean is 0", "n:2 c:3 h:0 w:7"},
      {"less than a warp", "n:2 c:3 h:3 w:5"},
      {"ResNet-50's plane", "n:3 c:33 h:7 w:7"},
      {"channels over a block", "n:1 c:1031 h:3 w:1"},
      {"channels of whole packs", "n:2 c:64 h:5 w:7"},
      {"a long plane", "n:1 c:3 h:1031 w:7"},
  };
  const Cases standard{
      {"ResNet-50 2048@7, batch 32", "n:32 c:2048 h:7 w:7"},
      {"MobileNet v1 1024@7", "n:1 c:1024 h:7 w:7"},
  };
  const Cases more{
      {"ResNet-50 2048@7, batch 256", "n:256 c:2048 h:7 w:7"},
  };
  return across(kFloatTypes, across(kLayouts, by_scale(scale, test, standard, more)));
}

}  // namespace duet
