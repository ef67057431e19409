// SPDX-License-Identifier: Apache-2.0
// Reference for rnn_tanh, gru, lstm and their backward passes: serial, in double, the formulas of the contract
// (ops/recurrent/recurrent.h) and nothing else. A slice is a sequence in one direction; backward, it is a sequence or,
// after those, the weights of one direction. Values carry the deviation of their error through the steps; it is the
// abs_sum of their claims (RecurrentBase::unit). The steps are in walks.h.
#include "ops/recurrent/recurrent.h"

#include "core/registry.h"
#include "cpu_ref/recurrent/walks.h"

namespace duet {
using namespace tracked;  // NOLINT: the arithmetic of values with errors

template <Cell kCell>
void Recurrent<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  constexpr int64_t K = Base::K;
  const int64_t dir = slice / B, b = slice % B, wide = this->directions() * H;
  Row h = zeros(H), c = zeros(H);
  const Direction<Recurrent> direction{*this, dir};
  const auto x_at = [&](int64_t t, int64_t i) { return exact(in[x][(t * B + b) * I + i]); };
  walk_forward(direction, in, b, x_at, h, c, [&](int64_t t, const Row& kept) {
    for (int64_t i = 0; i < K * H && !inference; ++i)
      expect(reserve, ((dir * T + t) * B + b) * K * H + i, at(kept, i).v, at(kept, i).deviation());
    for (int64_t j = 0; j < H; ++j) expect(y, (t * B + b) * wide + dir * H + j, at(h, j).v, at(h, j).deviation());
  });
  // Zeros behind the last step.
  for (int64_t t = steps_of(*this, in, b); t < T; ++t) {
    for (int64_t j = 0; j < H; ++j) expect(y, (t * B + b) * wide + dir * H + j, 0);
    for (int64_t i = 0; i < K * H && !inference; ++i) expect(reserve, ((dir * T + t) * B + b) * K * H + i, 0);
  }
  claim_state(direction, b, hT, h, expect);
  if constexpr (has_c) claim_state(direction, b, cT, c, expect);
}

template <Cell kCell>
void RecurrentBackward<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  constexpr int64_t K = Base::K;
  Row dh = zeros(H), dc = zeros(H);
  const auto walk = [&](const Direction<RecurrentBackward>& d, int64_t b, auto&& step) {
    const auto y_at = [&, wide = this->directions() * H](Slot slot, int64_t t, int64_t j) {
      return exact(in[slot][(t * B + b) * wide + d.dir * H + j]);
    };
    const auto given_y = [&](int64_t t, int64_t j) { return y_at(y, t, j); };
    const auto kept = [&](int64_t part, int64_t t, int64_t j) {
      return exact(in[reserve][((d.dir * T + t) * B + b) * K * H + part * H + j]);
    };
    const auto add_dy = [&](int64_t t, int64_t j, Value& to) {
      if (!last_only) to = to + y_at(dy, t, j);
    };
    walk_back(d, in, b, given_y, kept, add_dy, dh, dc, step);
  };
  if (slice >= B) {
    const Direction<RecurrentBackward> d{*this, slice - B};
    WeightGradients<true, RecurrentBackward> weights(d);
    for (int64_t b = 0; b < B; ++b)
      walk(d, b, [&](int64_t t, const Row& da, const Row& dm, const Row& before) {
        weights.add([&](int64_t i) { return exact(in[x][(t * B + b) * I + i]); }, da, dm, before);
      });
    return weights.claim(expect);
  }
  InputGradient<RecurrentBackward> to_x(*this, in, 0);
  for (int64_t dir = 0; dir < this->directions(); ++dir) {
    const Direction<RecurrentBackward> d{*this, dir};
    walk(d, slice, [&](int64_t t, const Row& da, const Row&, const Row&) { to_x.add(dir, t, da); });
    claim_state(d, slice, dh0, dh, expect);
    if constexpr (has_c) claim_state(d, slice, dc0, dc, expect);
  }
  claim_dx(*this, slice, to_x.values(), expect);
}

template struct Recurrent<Cell::rnn_tanh>;
template struct Recurrent<Cell::gru>;
template struct Recurrent<Cell::lstm>;
template struct RecurrentBackward<Cell::rnn_tanh>;
template struct RecurrentBackward<Cell::gru>;
template struct RecurrentBackward<Cell::lstm>;

DUET_PROBLEM(RnnTanh);
DUET_PROBLEM(RnnTanhBackward);
DUET_PROBLEM(Gru);
DUET_PROBLEM(GruBackward);
DUET_PROBLEM(Lstm);
DUET_PROBLEM(LstmBackward);

}  // namespace duet
