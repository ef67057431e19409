// SPDX-License-Identifier: Apache-2.0
// For implementations: the plan of a training problem from those of its passes.
#pragma once
#include <utility>
#include <vector>

#include "core/composed_plan.h"
#include "ops/recurrent/recurrent_training.h"

namespace duet {

// The reserve lies in the workspace.
template <Cell kCell>
Plan compose(const RecurrentTraining<kCell>& p, Plan forward, Plan backward) {
  using P = RecurrentTraining<kCell>;
  const auto forward_tensors = p.forward().tensors(), backward_tensors = p.backward().tensors();
  ComposedPlan whole;
  const auto reserve = whole.between(forward_tensors[Recurrent<kCell>::reserve.index]);
  std::vector<ComposedPlan::Source> first{P::x, P::w, P::r, P::bias, P::h0}, second{P::x, P::w, P::r, P::h0};
  if (P::has_c) {
    first.insert(first.end(), {P::c0, P::y, P::hT, P::cT, reserve});
    second.insert(second.end(),
                  {P::c0, P::y, reserve, P::dy, P::dhT, P::dcT, P::dx, P::dw, P::dr, P::dbias, P::dh0, P::dc0});
  } else {
    first.insert(first.end(), {P::y, P::hT, reserve});
    second.insert(second.end(), {P::y, reserve, P::dy, P::dhT, P::dx, P::dw, P::dr, P::dbias, P::dh0});
  }
  if (p.padded) {
    first.push_back(P::lengths);
    second.push_back(P::lengths);
  }
  whole.add(std::move(forward), forward_tensors, std::move(first));
  whole.add(std::move(backward), backward_tensors, std::move(second));
  return std::move(whole).plan();
}

}  // namespace duet
