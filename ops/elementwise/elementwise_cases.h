// SPDX-License-Identifier: Apache-2.0
// The sizes at which elementwise ops are tested and timed; contracts add cases of their own.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases elementwise_sizes(Scale scale) {
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
      {"64 MiB an f32 tensor: beyond the caches", "n:16777216"},
      {"MLP 784-128-10, batch 32: hidden layer", "n:4096"},                // 32 x 128
      {"BERT-base, 16 x 384 tokens, 768 features", "n:4718592"},           // 16 x 384 x 768
      {"ResNet-50 conv1 output, batch 32: 64 x 112 x 112", "n:25690112"},  // 32 x 64 x 112 x 112
  };
  const Cases more{
      {"GPT-2 124M MLP, 8192 tokens, 3072 features", "n:25165824"},  // 8192 x 3072
      {"ResNet-50 conv1 output, batch 256", "n:205520896"},          // 256 x 64 x 112 x 112
      {"1 GiB an f32 tensor", "n:268435456"},
  };
  return by_scale(scale, test, standard, more);
}

// Where CPU and GPU change places; f32 alone.
inline Cases elementwise_sweep(Scale scale) { return by_scale(scale, {}, {}, {}, sweep("n", 64, 16777216)); }

// `odd`: further tests, of what is special about an op.
inline Cases elementwise_cases(Scale scale, const Cases& odd = {}) {
  if (scale == Scale::sweep) return elementwise_sweep(scale);
  return with_odd(scale, across(kFloatTypes, elementwise_sizes(scale)), odd);
}

}  // namespace duet
