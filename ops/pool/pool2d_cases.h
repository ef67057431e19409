// SPDX-License-Identifier: Apache-2.0
// The shapes at which pooling is tested and timed, in both layouts.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases pool2d_shapes(Scale scale) {
  const Cases test{
      {"one pixel", "n:1 c:1 h:1 w:1 r:1 s:1"},
      {"no image", "n:0 c:3 h:7 w:11 r:3 s:3"},
      {"no channel", "n:2 c:0 h:7 w:11 r:3 s:3"},
      {"no window fits", "n:1 c:3 h:3 w:3 r:5 s:3"},
      {"2x2, stride 2, nothing left over", "n:2 c:3 h:6 w:66 r:2 s:2 stride_h:2 stride_w:2"},
      {"2x2, stride 2, a row and a column left over", "n:2 c:5 h:7 w:33 r:2 s:2 stride_h:2 stride_w:2"},
      {"3x3, stride 2, pad 1", "n:2 c:3 h:8 w:11 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"3x3, stride 2, pad 1, over two vectors", "n:1 c:2 h:5 w:67 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"3x3, stride 2, over two vectors", "n:1 c:2 h:7 w:69 r:3 s:3 stride_h:2 stride_w:2"},
      {"3x3, stride 2, pad 1, one column", "n:1 c:3 h:5 w:1 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"2x3, stride 2, pad 1, rows apart", "n:1 c:3 h:9 w:34 r:2 s:3 pad_w:1 dil_h:3 stride_w:2"},
      {"overlap at stride 1", "n:1 c:3 h:5 w:35 r:3 s:3 pad_h:1 pad_w:1"},
      {"nothing square", "n:2 c:3 h:7 w:11 r:5 s:3 stride_w:3"},
      {"pad in one axis", "n:1 c:3 h:7 w:11 r:3 s:4 pad_w:3 stride_h:3"},
      {"windows apart", "n:1 c:3 h:11 w:13 r:2 s:1 stride_h:4 stride_w:3"},
      {"dilation 2", "n:1 c:3 h:9 w:10 r:3 s:2 pad_h:1 stride_w:3 dil_h:2 dil_w:2"},
      {"channels over a vector", "n:1 c:33 h:5 w:4 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"channels over a block, a multiple of eight", "n:1 c:1032 h:2 w:3 r:2 s:2"},
      {"channels by eights, 3x3", "n:1 c:16 h:4 w:5 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"channels by eights, 2x2", "n:1 c:16 h:4 w:6 r:2 s:2 stride_h:2 stride_w:2"},
      {"channels over a vector, 2x2, a row and a column left over", "n:2 c:35 h:5 w:7 r:2 s:2 stride_h:2 stride_w:2"},
      {"channels by eights, nothing square", "n:1 c:16 h:7 w:4 r:5 s:3 pad_h:2"},
  };
  const Cases standard{
      {"ResNet-50 64@112, batch 32", "n:32 c:64 h:112 w:112 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"CIFAR CNN 32@30, batch 64", "n:64 c:32 h:30 w:30 r:2 s:2 stride_h:2 stride_w:2"},
      {"image CNN 64@109, batch 32", "n:32 c:64 h:109 w:109 r:2 s:2 stride_h:2 stride_w:2"},
  };
  const Cases more{
      {"ResNet-50 64@112, one image", "n:1 c:64 h:112 w:112 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"ResNet-50 64@112, batch 256", "n:256 c:64 h:112 w:112 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"VGG-19 64@224, batch 64", "n:64 c:64 h:224 w:224 r:2 s:2 stride_h:2 stride_w:2"},
  };
  const Cases all = by_scale(scale, test, standard, more);
  return concat({all, with("layout:nhwc", all)});
}
inline Cases pool2d_cases(Scale scale) { return across(kFloatTypes, pool2d_shapes(scale)); }

}  // namespace duet
