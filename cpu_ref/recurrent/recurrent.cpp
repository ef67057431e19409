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
  walk_forward(*this, in, dir, b, h, c, [&](int64_t t, const Row& kept) {
    for (int64_t i = 0; i < K * H && !inference; ++i)
      expect(reserve, ((dir * T + t) * B + b) * K * H + i, at(kept, i).v, at(kept, i).deviation());
    for (int64_t j = 0; j < H; ++j) expect(y, (t * B + b) * wide + dir * H + j, at(h, j).v, at(h, j).deviation());
  });
  // Zeros behind the last step.
  for (int64_t t = steps_of(*this, in, b); t < T; ++t) {
    for (int64_t j = 0; j < H; ++j) expect(y, (t * B + b) * wide + dir * H + j, 0);
    for (int64_t i = 0; i < K * H && !inference; ++i) expect(reserve, ((dir * T + t) * B + b) * K * H + i, 0);
  }
  for (int64_t j = 0; j < H; ++j) {
    expect(hT, slice * H + j, at(h, j).v, at(h, j).deviation());
    if constexpr (has_c) expect(cT, slice * H + j, at(c, j).v, at(c, j).deviation());
  }
}

template <Cell kCell>
void RecurrentBackward<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  constexpr int64_t K = Base::K;
  const auto walk = [&](int64_t dir, int64_t b, Row& dh, Row& dc, auto&& step) {
    const auto given_y = [&, wide = this->directions() * H](int64_t t, int64_t j) {
      return exact(in[y][(t * B + b) * wide + dir * H + j]);
    };
    const auto kept = [&](int64_t part, int64_t t, int64_t j) {
      return exact(in[reserve][((dir * T + t) * B + b) * K * H + part * H + j]);
    };
    walk_back(*this, in, dir, b, given_y, kept, dh, dc, step);
  };
  if (slice < B)
    return claim_sequence(
        *this, in, slice, [&](int64_t dir, Row& dh, Row& dc, auto&& step) { walk(dir, slice, dh, dc, step); }, expect);
  Row dh = zeros(H), dc = zeros(H);
  claim_weights<true>(
      *this, in, slice - B, [&](int64_t b, auto&& step) { walk(slice - B, b, dh, dc, step); }, expect);
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
