// SPDX-License-Identifier: Apache-2.0
// The shapes at which the ops of quantisation are tested and timed, and how their inputs are drawn. x lies in +-3 and a
// scale within 0.005 to 0.05: with 8 bits, some values are clamped in most channels.
#pragma once
#include "core/problem.h"

namespace duet {

inline constexpr Fill kQuantisedFill = Fill::uniform(-3, 3), kScaleFill = Fill::uniform(0.005, 0.05);

// `odd`: further tests, of what is special about an op.
inline Cases quantise_cases(Scale scale, const Cases& odd) {
  const Cases test{
      {"one element", "outer:1 c:1 inner:1"},
      {"no samples", "outer:0 c:7 inner:1"},
      {"no channels", "outer:3 c:0 inner:1"},
      {"empty planes", "outer:3 c:7 inner:0"},
      {"three of each", "outer:3 c:3 inner:3"},
      {"beside a warp", "outer:31 c:33 inner:1"},
      {"channels in whole packs, longer than a block", "outer:5 c:1032 inner:1"},
      {"thin and long", "outer:10007 c:3 inner:1"},
      {"short planes", "outer:5 c:33 inner:7"},
      {"ResNet-50's last planes, narrowed", "outer:2 c:5 inner:49"},
      {"planes of whole packs", "outer:3 c:5 inner:1024"},
      {"prime planes, longer than a block", "outer:3 c:3 inner:1031"},
      {"one scale for a tensor, several tasks", "outer:1 c:1 inner:40009"},
  };
  const Cases standard{
      {"Llama-3-8B, 4096 -> 4096: weights by output channel", "outer:1 c:4096 inner:4096"},
      {"GPT-2 124M MLP, 8192 tokens: one scale", "outer:1 c:1 inner:25165824"},
      {"GPT-2 124M MLP, 8192 tokens: by feature", "outer:8192 c:3072 inner:1"},
      {"ResNet-50 last stage, batch 32, by channel", "outer:32 c:2048 inner:49"},
      {"MLP 784-128-10: weights by output channel", "outer:1 c:128 inner:784"},
  };
  const Cases more{
      {"ResNet-50 conv1 output, batch 256, by channel", "outer:256 c:64 inner:12544"},
      {"Llama-3-8B, 14336 -> 4096: weights by output channel", "outer:1 c:4096 inner:14336"},
      {"1 GiB an f32 tensor, one scale", "outer:1 c:1 inner:268435456"},
  };
  return concat({with_odd(scale, across(kFloatTypes, by_scale(scale, test, standard, more)), odd),
                 by_scale(scale, {}, {}, {}, sweep("inner", 1024, 16777216, "outer:1 c:1"))});
}

// Tests of the special values of quantise_formula.h, for ops that divide x by the scale.
inline Cases odd_quotients() {
  return {
      {"ties: quotients halfway between levels", "outer:3 c:33 inner:7 x=halfway scale=0.5"},
      {"a tie at every second level", "outer:1 c:5 inner:1031 x=below:200 scale=2"},
      {"a scale of zero", "outer:3 c:5 inner:33 scale=0"},
      {"zero divided by a scale of zero", "outer:3 c:5 inner:33 x=0 scale=0"},
      {"a negative scale", "outer:3 c:5 inner:33 scale=-0.02"},
      {"a scale of NaN, the last", "outer:3 c:33 inner:1 scale=last:nan"},
      {"an infinite scale", "outer:3 c:5 inner:33 scale=inf x=edges+inf"},
      {"edge values, infinities and NaN", "outer:31 c:33 inner:1 x=edges+inf+nan"},
      {"edge values, infinities and NaN in planes", "outer:5 c:3 inner:49 x=edges+inf+nan"},
      {"subnormal x and scale", "outer:3 c:33 inner:7 x=subnormal scale=subnormal"},
      {"zero points beyond hi", "outer:3 c:33 inner:7 zero=below:1000"},
      {"zero points beyond lo", "outer:3 c:33 inner:1 zero=-2147483648"},
      {"4 bits", "outer:3 c:33 inner:49 lo:-8 hi:7 scale=0.2..0.5"},
      {"levels of one value", "outer:3 c:33 inner:1 lo:5 hi:5"},
  };
}

}  // namespace duet
