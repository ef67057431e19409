// SPDX-License-Identifier: Apache-2.0
// Reference for both passes of a recurrent layer as one problem: those of recurrent.cpp, the backward pass on what the
// forward pass computed, with its errors. A slice is a sequence; after those, it is the weights of a direction.
#include "ops/recurrent/recurrent_training.h"

#include "core/registry.h"
#include "cpu_ref/recurrent/walks.h"

namespace duet {
using namespace tracked;  // NOLINT: the arithmetic of values with errors

template <Cell kCell>
void RecurrentTraining<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t wide = this->directions() * H;
  std::vector<Row> made_y(static_cast<size_t>(T)), made_kept(made_y.size());  // of a sequence in one direction
  Row h = zeros(H), c = zeros(H);
  const auto walk = [&](int64_t dir, int64_t b, Row& dh, Row& dc, auto&& step) {
    walk_forward(*this, in, dir, b, h, c, [&](int64_t t, const Row& kept) {
      at(made_y, t) = h;
      at(made_kept, t) = kept;
    });
    const auto y_at = [&](int64_t t, int64_t j) { return at(at(made_y, t), j); };
    const auto kept = [&](int64_t part, int64_t t, int64_t j) { return at(at(made_kept, t), part * H + j); };
    walk_back(*this, in, dir, b, y_at, kept, dh, dc, step);
  };
  if (slice >= B) {
    Row dh = zeros(H), dc = zeros(H);
    return claim_weights<false>(
        *this, in, slice - B, [&](int64_t b, auto&& step) { walk(slice - B, b, dh, dc, step); }, expect);
  }
  const auto walk_and_claim = [&](int64_t dir, Row& dh, Row& dc, auto&& step) {
    walk(dir, slice, dh, dc, step);
    const int64_t steps = steps_of(*this, in, slice);
    for (int64_t j = 0; j < H; ++j) {
      for (int64_t t = 0; t < T; ++t) {
        const Value value = t < steps ? at(at(made_y, t), j) : exact(0);
        expect(y, (t * B + slice) * wide + dir * H + j, value.v, value.deviation());
      }
      expect(hT, (dir * B + slice) * H + j, at(h, j).v, at(h, j).deviation());
      if constexpr (has_c) expect(cT, (dir * B + slice) * H + j, at(c, j).v, at(c, j).deviation());
    }
  };
  claim_sequence(*this, in, slice, walk_and_claim, expect);
}

template struct RecurrentTraining<Cell::rnn_tanh>;
template struct RecurrentTraining<Cell::gru>;
template struct RecurrentTraining<Cell::lstm>;

DUET_PROBLEM(RnnTanhTraining);
DUET_PROBLEM(GruTraining);
DUET_PROBLEM(LstmTraining);

}  // namespace duet
