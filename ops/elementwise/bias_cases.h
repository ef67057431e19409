// SPDX-License-Identifier: Apache-2.0
// The shapes at which bias and its backward pass are tested and timed.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases bias_cases(Scale scale) {
  const Cases test{
      {"one element", "outer:1 c:1 inner:1"},
      {"no samples", "outer:0 c:7 inner:1"},
      {"no channels", "outer:3 c:0 inner:1 act:relu"},
      {"empty planes", "outer:3 c:7 inner:0 act:relu"},
      {"three of each", "outer:3 c:3 inner:3 act:relu"},
      {"beside a warp", "outer:31 c:33 inner:1 act:relu"},
      {"MLP head", "outer:32 c:10 inner:1"},
      {"a long row of channels", "outer:3 c:4099 inner:1 act:relu"},
      {"thin and long", "outer:10007 c:3 inner:1 act:relu"},
      {"whole packs, several tasks", "outer:131 c:256 inner:1"},
      {"whole packs, several tasks, relu", "outer:131 c:256 inner:1 act:relu"},
      {"short planes: ResNet-50's last, narrowed", "outer:5 c:33 inner:49 act:relu"},
      {"planes of whole packs", "outer:3 c:5 inner:1024"},
      {"planes in parts, relu", "outer:19 c:3 inner:24 act:relu"},
      {"planes of whole packs, relu", "outer:3 c:5 inner:1024 act:relu"},
      {"prime planes, longer than a block", "outer:7 c:3 inner:1031 act:relu"},
      {"one long plane", "outer:1 c:1 inner:40009"},
      {"planes of several segments, relu", "outer:3 c:2 inner:9001 act:relu"},
  };
  const Cases standard{
      {"GPT-2 124M MLP, 8192 tokens, 3072 features", "outer:8192 c:3072 inner:1"},
      {"ResNet-50 conv1 output, batch 32", "outer:32 c:64 inner:12544 act:relu"},
      {"MLP 784-128-10, batch 32: hidden layer", "outer:32 c:128 inner:1 act:relu"},
      {"VGG-19, 512 channels of 14 x 14, batch 64", "outer:64 c:512 inner:196 act:relu"},
  };
  const Cases more{
      {"BERT-base, 16 x 384 tokens, 768 features", "outer:6144 c:768 inner:1"},
      {"ResNet-50 conv1 output, batch 256", "outer:256 c:64 inner:12544 act:relu"},
      {"ResNet-50 last stage, batch 256", "outer:256 c:2048 inner:49 act:relu"},
      {"1 GiB an f32 tensor", "outer:32768 c:8192 inner:1"},
  };
  if (scale == Scale::sweep) return sweep("outer", 1, 16384, "c:1024");
  return across(kFloatTypes, by_scale(scale, test, standard, more));
}

}  // namespace duet
