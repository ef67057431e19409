// SPDX-License-Identifier: Apache-2.0
// The sizes at which optimisers with an attribute `mixed` (ops/optimiser/mixed.h) are tested and timed.
#pragma once
#include "core/cases.h"

namespace duet {

inline Cases optimiser_cases(Scale scale) {
  const Cases test{
      {"nothing", "n:0"},
      {"one parameter", "n:1"},
      {"three parameters", "n:3"},
      {"a lane short of a warp", "n:31"},
      {"a lane over a warp", "n:33"},
      {"prime, longer than a block", "n:1031"},
      {"several tasks, the last short", "n:40009"},
      {"mixed precision, no parameters", "n:0 mixed:1"},
      {"mixed precision", "n:1031 mixed:1"},
      {"mixed precision, skipped", "n:33 mixed:1 bad=1"},
  };
  const Cases standard{
      {"ResNet-50", "n:25557032"},
      {"LeNet", "n:62006"},
      {"MLP 784-128-10", "n:101770"},
  };
  const Cases halves{
      {"ResNet-50, mixed precision", "n:25557032 mixed:1"},
  };
  const Cases more{
      {"BERT-base", "n:109482240"},
      {"GPT-2 124M", "n:124439808"},
  };
  return by_scale(scale, across(kFloatTypes, test),
                  concat({across(kF32AndBf16, standard), across({"dtype:bf16", "dtype:f16"}, halves)}),
                  across(kF32AndBf16, more));
}

}  // namespace duet
