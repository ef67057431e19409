// SPDX-License-Identifier: Apache-2.0
// The shapes at which batch normalisation is tested and timed, in both layouts.
#pragma once
#include "ops/conv/conv2d.h"  // kLayouts

namespace duet {

inline Cases batchnorm_cases(Scale scale) {
  const Cases plain{
      {"one element a channel: its own mean", "n:1 c:3 h:1 w:1"},
      {"no image", "n:0 c:3 h:5 w:7"},
      {"no channel", "n:2 c:0 h:5 w:7"},
      {"no pixel", "n:2 c:3 h:0 w:7"},
      {"two elements a channel", "n:2 c:33 h:1 w:1"},
      {"nothing square", "n:3 c:5 h:7 w:11"},
      {"whole packs of pixels and channels", "n:2 c:64 h:4 w:8"},
      {"ResNet-50's last plane", "n:5 c:40 h:7 w:7"},
      {"prime, longer than a block", "n:1 c:3 h:1031 w:3"},
      {"several parts of a plane of channels", "n:5 c:2 h:41 w:43"},
      {"several parts, whole packs", "n:4 c:8 h:48 w:32"},
      {"many images of one pixel", "n:1031 c:7 h:1 w:1"},
      {"channels over a block", "n:3 c:521 h:2 w:1"},
      {"one NaN, the last: its channel alone is NaN", "n:3 c:5 h:7 w:11 x=last:nan"},
  };
  const Cases fused{
      {"no image", "n:0 c:3 h:5 w:7"},
      {"nothing square", "n:3 c:5 h:7 w:11"},
      {"whole packs of pixels and channels", "n:2 c:64 h:4 w:8"},
      {"ResNet-50's last plane", "n:5 c:40 h:7 w:7"},
  };
  const Cases standard{
      {"ResNet-50 64@56, batch 16", "n:16 c:64 h:56 w:56"},
      {"ResNet-50 64@112, batch 16", "n:16 c:64 h:112 w:112 act:relu"},
      {"ResNet-50 256@56, batch 16", "n:16 c:256 h:56 w:56 act:relu residual:1"},
      {"ResNet-50 256@14, batch 16", "n:16 c:256 h:14 w:14 act:relu"},
      {"ResNet-50 2048@7, batch 16", "n:16 c:2048 h:7 w:7 act:relu residual:1"},
  };
  const Cases more{
      {"ResNet-50 64@112, batch 50, benchdnn", "n:50 c:64 h:112 w:112"},
      {"ResNet-50 256@56, 4 times, batch 50, benchdnn", "n:50 c:256 h:56 w:56"},
      {"ResNet-50 64@56, 6 times, batch 50, benchdnn", "n:50 c:64 h:56 w:56"},
      {"ResNet-50 512@28, 5 times, batch 50, benchdnn", "n:50 c:512 h:28 w:28"},
      {"ResNet-50 128@28, 8 times, batch 50, benchdnn", "n:50 c:128 h:28 w:28"},
      {"ResNet-50 1024@14, 7 times, batch 50, benchdnn", "n:50 c:1024 h:14 w:14"},
      {"ResNet-50 256@14, 12 times, batch 50, benchdnn", "n:50 c:256 h:14 w:14"},
      {"ResNet-50 2048@7, 4 times, batch 50, benchdnn", "n:50 c:2048 h:7 w:7"},
      {"ResNet-50 512@7, 6 times, batch 50, benchdnn", "n:50 c:512 h:7 w:7"},
  };
  const Cases test = concat({
      across(kFloatTypes, across(kLayouts, plain)),
      across(kFloatTypes, with("act:relu", across(kLayouts, fused))),
      across(kFloatTypes, with("act:relu residual:1", across(kLayouts, fused))),
      {{"channels over a task of the CPU", "n:2 c:1031 h:1 w:1 layout:nhwc"}},
  });
  return by_scale(scale, test, across(kF32AndBf16, across(kLayouts, standard)),
                  across(kF32AndBf16, across(kLayouts, more)), sweep("n", 1, 256, "c:64 h:56 w:56", 2));
}

}  // namespace duet
