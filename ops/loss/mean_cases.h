// SPDX-License-Identifier: Apache-2.0
// The sizes at which losses that are means over all elements are tested and timed.
#pragma once
#include <algorithm>
#include <string>

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

// Those of the gradients. An n-th of a gradient is below the range of f16 where n is large: there the published cases
// scale the loss by n.
inline Cases mean_backward_cases(Scale scale) {
  const Cases test{
      {"the loss is scaled", "n:1031 scale:1024"},
  };
  if (scale == Scale::test) return concat({mean_cases(scale), across(kFloatTypes, test)});
  Cases all = mean_cases(scale);
  for (Case& c : all) {
    const std::vector<CaseWord> words = words_of(c.text);
    const auto word = [&](std::string_view name) {
      return *std::find_if(words.begin(), words.end(), [&](const CaseWord& w) { return w.name == name; });
    };
    if (word("dtype").value == "f16") c.text += " scale:" + std::string(word("n").value);
  }
  return all;
}

}  // namespace duet
