// SPDX-License-Identifier: Apache-2.0
// The shapes at which softmax and its backward pass are tested and timed.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases softmax_cases(Scale scale) {
  const Cases test{
      {"one element", "rows:1 cols:1"},
      {"no rows", "rows:0 cols:7"},
      {"nothing in each row", "rows:3 cols:0"},
      {"a lane short of a warp", "rows:3 cols:31"},
      {"a row over a block", "rows:257 cols:33"},
      {"whole packs, a warp for each short row", "rows:9 cols:256"},
      {"whole packs, a warp for each row", "rows:9 cols:512"},
      {"whole packs, a block for each row", "rows:2 cols:2048"},
      {"prime, longer than a block", "rows:5 cols:1031"},
      {"long rows, several tasks", "rows:3 cols:50257"},
  };
  const Cases standard{
      {"GPT-2 124M scores, one head, 8 x 1024 tokens", "rows:8192 cols:1024"},
      {"ResNet-50 head, batch 256", "rows:256 cols:1000"},
      {"GPT-2 vocabulary, 512 tokens", "rows:512 cols:50257"},
      {"Transformer NLP, benchdnn", "rows:8576 cols:67"},
  };
  const Cases more{
      {"GPT-2 124M scores, B8 H12 T1024", "rows:98304 cols:1024"},
      {"GPT-2 vocabulary, 4096 tokens", "rows:4096 cols:50257"},
      {"Transformer NLP, the smallest, benchdnn", "rows:240 cols:20"},
      {"2D, benchdnn", "rows:96 cols:1000"},
      {"2D, benchdnn", "rows:256 cols:10"},
      {"2D, benchdnn", "rows:32 cols:100"},
      {"2D, benchdnn", "rows:2 cols:113"},
      {"2D, benchdnn", "rows:128 cols:365"},
  };
  // Rows of a head of 1024 tokens.
  return concat({across(kFloatTypes, by_scale(scale, test, standard, more)),
                 by_scale(scale, {}, {}, {}, sweep("rows", 1, 16384, "cols:1024"))});
}

}  // namespace duet
