// SPDX-License-Identifier: Apache-2.0
// For implementations: the plan of a training problem from those of its layers' passes.
#pragma once
#include <utility>
#include <vector>

#include "core/composed_plan.h"
#include "ops/recurrent/recurrent_training.h"

namespace duet {

// forward, backward: make the plan of a Recurrent or RecurrentBackward, one layer by itself. dropout: makes that of a
// Dropout or DropoutBackward. All layers run forward, the first one first, then backward. What lies between the passes,
// and between layers, is in the workspace.
template <Cell kCell>
Plan compose(const RecurrentTraining<kCell>& p, auto&& forward, auto&& backward, auto&& dropout) {
  using P = RecurrentTraining<kCell>;
  using Pass = Recurrent<kCell>;
  using Source = ComposedPlan::Source;
  ComposedPlan whole;

  // Parts of tensors that hold those of several layers.
  const auto part = [tensors = p.tensors()](Slot slot, int64_t index, int64_t count) {
    return Source(slot).from(tensors[static_cast<size_t>(slot.index)].bytes() / count * index);
  };
  const auto of = [&](Slot slot, int64_t layer) { return part(slot, layer, p.layers); };
  const auto weights = [&](Slot first, Slot above, int64_t layer) {
    return layer == 0 ? Source(first) : part(above, layer - 1, p.layers - 1);
  };
  const auto add_c = [&](std::vector<Source>& to, Slot c, int64_t layer) {
    if (P::has_c) to.push_back(of(c, layer));
  };
  const auto add_lengths = [&](std::vector<Source>& to) {
    if (p.padded) to.push_back(P::lengths);
  };

  // What the forward passes leave; masks: of the dropout behind each layer.
  struct Kept {
    Source x, y, reserve;
  };
  std::vector<Kept> kept;
  std::vector<Source> masks;
  Source x = P::x;
  for (int64_t l = 0; l < p.layers; ++l) {
    const Pass pass = p.forward(l);
    const auto tensors = pass.tensors();
    const auto between = [&](Slot slot) { return whole.between(tensors[static_cast<size_t>(slot.index)]); };
    const bool last = l == p.layers - 1;
    const Source y = last ? Source(P::y) : between(Pass::y), reserve = between(Pass::reserve);
    std::vector<Source> sources{x, weights(P::w, P::w_above, l), of(P::r, l), of(P::bias, l), of(P::h0, l)};
    add_c(sources, P::c0, l);
    sources.insert(sources.end(), {y, of(P::hT, l)});
    add_c(sources, P::cT, l);
    sources.push_back(reserve);
    add_lengths(sources);
    whole.add(forward(pass), tensors, std::move(sources));
    kept.push_back({x, y, reserve});
    x = y;
    if (p.dropout > 0 && !last) {
      const Dropout drop = p.dropout_of(l);
      const auto dropped = drop.tensors();
      x = whole.between(dropped[Dropout::y.index]);
      masks.push_back(whole.between(dropped[Dropout::mask.index]));
      whole.add(dropout(drop), dropped, {y, P::offset, x, masks.back()});
    }
  }

  Source dy = P::dy;
  for (int64_t l = p.layers - 1; l >= 0; --l) {
    const RecurrentBackward<kCell> pass = p.backward(l);
    const auto tensors = pass.tensors();
    const Source dx = l == 0 ? Source(P::dx) : whole.between(tensors[RecurrentBackward<kCell>::dx.index]);
    const Kept& left = kept[static_cast<size_t>(l)];
    if (p.dropout > 0 && l < p.layers - 1) {
      const DropoutBackward drop = p.dropout_backward();
      whole.add(dropout(drop), drop.tensors(), {dy, masks[static_cast<size_t>(l)], dy});
    }
    std::vector<Source> sources{left.x, weights(P::w, P::w_above, l), of(P::r, l), of(P::h0, l)};
    add_c(sources, P::c0, l);
    sources.insert(sources.end(), {left.y, left.reserve, dy, of(P::dhT, l)});
    add_c(sources, P::dcT, l);
    sources.insert(sources.end(), {dx, weights(P::dw, P::dw_above, l), of(P::dr, l), of(P::dbias, l), of(P::dh0, l)});
    add_c(sources, P::dc0, l);
    add_lengths(sources);
    whole.add(backward(pass), tensors, std::move(sources));
    dy = dx;
  }
  return std::move(whole).plan();
}

}  // namespace duet
