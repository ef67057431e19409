// SPDX-License-Identifier: Apache-2.0
// The sizes at which optimisers are tested and timed; each is a struct with members n and mixed.
#pragma once
#include "ops/optimiser/mixed.h"

namespace duet {

template <class P>
std::vector<Case<P>> optimiser_cases(Scale scale) {
  const auto sized = [](int64_t n, bool mixed = false) {
    P p;
    p.n = n;
    p.mixed = mixed;
    return p;
  };
  if (scale == Scale::test)
    return across(&P::dtype, kFloats,
                  {{"nothing", sized(0)},
                   {"one parameter", sized(1)},
                   {"three parameters", sized(3)},
                   {"a lane short of a warp", sized(31)},
                   {"a lane over a warp", sized(33)},
                   {"prime, longer than a block", sized(1031)},
                   {"several tasks, the last short", sized(40009)},
                   {"mixed precision, no parameters", sized(0, true)},
                   {"mixed precision", sized(1031, true)},
                   {"mixed precision, skipped", sized(mixed::kSkipped, true)}});
  constexpr DType kWide[] = {DType::f32, DType::bf16}, kHalves[] = {DType::bf16, DType::f16};
  const std::vector<Case<P>> shapes{
      {"ResNet-50", sized(25557032)}, {"LeNet", sized(62006)}, {"MLP 784-128-10", sized(101770)}};
  const std::vector<Case<P>> halves{{"ResNet-50, mixed precision", sized(25557032, true)}};
  auto all = concat(across(&P::dtype, kWide, shapes), across(&P::dtype, kHalves, halves));
  if (scale == Scale::full)
    all = concat(std::move(all),
                 across(&P::dtype, kWide, {{"BERT-base", sized(109482240)}, {"GPT-2 124M", sized(124439808)}}));
  return all;
}

}  // namespace duet
