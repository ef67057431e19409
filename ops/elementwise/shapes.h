// SPDX-License-Identifier: Apache-2.0
// The sizes at which elementwise problems are tested and timed; each is a struct whose first member is n.
#pragma once
#include "core/problem.h"

namespace duet {

template <class P>
std::vector<Case<P>> elementwise_cases(Scale scale) {
  const auto sized = [](int64_t n) {
    P p;
    p.n = n;
    return p;
  };
  if (scale == Scale::test)
    return across(&P::dtype, kFloats,
                  {{"nothing", sized(0)},
                   {"one element", sized(1)},
                   {"three elements", sized(3)},
                   {"a lane short of a warp", sized(31)},
                   {"a lane over a warp", sized(33)},
                   {"prime, longer than a block", sized(1031)},
                   {"several tasks, the last short", sized(100003)}});
  std::vector<Case<P>> all{{"64 MiB an f32 tensor: beyond the caches", sized(1 << 24)},
                           {"MLP 784-128-10, batch 32: hidden layer", sized(32 * 128)},
                           {"BERT-base, 16 x 384 tokens, 768 features", sized(16 * 384 * 768)},
                           {"ResNet-50 conv1 output, batch 32: 64 x 112 x 112", sized(32 * 64 * 112 * 112)}};
  if (scale == Scale::full)
    all.insert(all.end(), {{"GPT-2 124M MLP, 8192 tokens, 3072 features", sized(8192 * 3072)},
                           {"ResNet-50 conv1 output, batch 256", sized(256 * 64 * 112 * 112)},
                           {"1 GiB an f32 tensor", sized(1 << 28)}});
  return across(&P::dtype, kFloats, all);
}

}  // namespace duet
