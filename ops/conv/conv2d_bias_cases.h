// SPDX-License-Identifier: Apache-2.0
// The shapes at which conv2d_bias is tested and timed.
#pragma once
#include <string>

#include "ops/conv/conv2d_cases.h"

namespace duet {

// ResNet-50's 23 layers, as conv2d has them at batch 256, the most frequent first. relu comes after all but those 1x1
// that widen, whose sums meet a residual.
inline Cases resnet50_layers() {
  Cases layers;
  for (Case layer : having("n:256", conv2d_cases(Scale::full))) {
    int64_t c = 0, k = 0, taps = 0;
    bool nchw = true;
    for (const CaseWord& word : words_of(layer.text)) {
      int64_t* const number = word.name == "c" ? &c : word.name == "k" ? &k : word.name == "r" ? &taps : nullptr;
      if (number) *number = std::stoll(std::string(word.value));
      nchw = nchw && word.name != "layout";
    }
    if (taps > 1 || k <= c) layer.text += " act:relu";
    if (nchw) layers.push_back(layer);
  }
  return without("n", layers);
}

inline Cases conv2d_bias_cases(Scale scale) {
  const Cases odd{
      {"one tap", "n:1 c:1 h:1 w:1 k:1 r:1 s:1"},
      {"no image", "n:0 c:3 h:7 w:11 k:5 r:3 s:3 act:relu"},
      {"no channel: the bias alone", "n:1 c:0 h:3 w:3 k:5 r:3 s:3 act:relu"},
      {"the filter does not fit", "n:1 c:3 h:3 w:3 k:5 r:5 s:3"},
      {"pad over the filter", "n:1 c:2 h:3 w:4 k:3 r:3 s:3 pad_h:4 pad_w:3 act:relu"},
      {"strides and dilations",
       "n:2 c:3 h:13 w:17 k:5 r:3 s:3 pad_h:2 pad_w:2 stride_h:2 stride_w:3 dil_h:2 dil_w:2 act:relu"},
      {"depthwise", "n:2 c:17 h:9 w:9 k:17 r:3 s:3 pad_h:1 pad_w:1 groups:17 act:relu"},
      {"depthwise, bias alone", "n:1 c:5 h:9 w:37 k:5 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 groups:5"},
      {"groups of unequal width", "n:2 c:6 h:7 w:11 k:9 r:3 s:1 groups:3 act:relu"},
      {"eights in groups, stride 2",
       "n:2 c:16 h:5 w:6 k:16 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 groups:2 act:relu"},
      {"1x1, over a tile", "n:2 c:33 h:7 w:11 k:65 r:1 s:1 act:relu"},
      {"1x1 to three channels", "n:1 c:33 h:7 w:11 k:3 r:1 s:1 act:relu"},
      {"1x1, over a cache block in pixels, nine images", "n:9 c:2 h:23 w:23 k:17 r:1 s:1 act:relu"},
      {"over a cache block in c", "n:1 c:129 h:5 w:9 k:17 r:3 s:3 pad_h:1 pad_w:1 act:relu"},
      {"3x3 over several blocks of tiles", "n:2 c:8 h:23 w:23 k:17 r:3 s:3 pad_h:1 pad_w:1 act:relu"},
      {"over a cache block in k", "n:2 c:8 h:5 w:5 k:129 r:3 s:3 pad_h:1 pad_w:1"},
      {"by eights, over a tile", "n:1 c:32 h:12 w:12 k:72 r:3 s:3 pad_h:1 pad_w:1 act:relu"},
  };
  const Cases layers = resnet50_layers(), frequent{layers.begin(), layers.begin() + 4};
  const Cases rest{layers.begin() + 4, layers.end()};
  const Cases standard = concat({with("n:1", frequent), with("n:32 layout:nhwc", across(kF32AndBf16, frequent))});
  const Cases more = concat({
      with("n:1", rest),
      across({"n:32", "n:32 math:tf32", "n:256", "n:256 dtype:bf16 layout:nhwc"}, layers),
      with("n:32 layout:nhwc", across(kFloatTypes, rest)),
      with("n:32 layout:nhwc dtype:f16", frequent),
  });
  const Cases test = concat({across(kAllPrecisions, odd), with("layout:nhwc", across(kFloatTypes, odd))});
  return by_scale(scale, test, standard, more,
                  sweep("n", 1, 128, "c:64 h:56 w:56 k:64 r:3 s:3 pad_h:1 pad_w:1 act:relu", 2));
}

}  // namespace duet
