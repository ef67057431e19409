// SPDX-License-Identifier: Apache-2.0
// Reference for both passes of recurrent layers as one problem: those of recurrent.cpp, the backward pass on what the
// forward pass computed, with its errors, and each layer on what the one below computed. A slice is a sequence; after
// those, it is the weights of a direction in all layers.
#include "ops/recurrent/recurrent_training.h"

#include "core/registry.h"
#include "cpu_ref/recurrent/walks.h"

namespace duet {
namespace {
using namespace tracked;  // NOLINT: the arithmetic of values with errors

// Takes sequences through all layers and back.
template <class P>
class Stack {
 public:
  // only: of the first layer, the direction to walk back; all where it is negative.
  Stack(const P& p, Inputs in, int64_t only)
      : p_(p),
        in_(in),
        only_(only),
        made_(static_cast<size_t>(p.layers * p.directions())),
        x_(static_cast<size_t>(p.layers)) {}

  // What the forward pass left in a direction of a layer. y, kept: by time; h, c: the last state.
  struct Made {
    std::vector<Row> y, kept;
    Row h, c;
  };
  const Made& made(const Direction<P>& d) const { return at(made_, d.number()); }
  Value x(int64_t layer, int64_t t, int64_t i) const {  // the input of a layer
    return layer == 0 ? exact(in_[P::x][(t * p_.B + b_) * p_.I + i]) : at(at(x_, layer), t * wide() + i);
  }

  // Sequence b. Calls step(d, t, da, dm, before) for each step back in each direction of a layer, the last layer first,
  // and end(d, dh, dc) after those of the direction.
  void run(int64_t b, auto&& step, auto&& end) {
    b_ = b;
    for (int64_t layer = 0; layer < p_.layers; ++layer) {
      for (int64_t dir = 0; dir < p_.directions(); ++dir)
        if (layer + 1 < p_.layers || is_walked_back(layer, dir)) forward({p_, dir, layer});
      if (layer + 1 < p_.layers) at(x_, layer + 1) = drop(layer, output(layer));
    }
    Row dy;  // of all but the last layer
    for (int64_t layer = p_.layers - 1; layer >= 0; --layer) {
      InputGradient<P> to_x(p_, in_, layer);
      for (int64_t dir = 0; dir < p_.directions(); ++dir) {
        if (!is_walked_back(layer, dir)) continue;
        const Direction<P> d{p_, dir, layer};
        Row dh = zeros(p_.H), dc = zeros(p_.H);
        back(d, dy, dh, dc, [&](int64_t t, const Row& da, const Row& dm, const Row& before) {
          step(d, t, da, dm, before);
          if (layer > 0) to_x.add(dir, t, da);
        });
        end(d, dh, dc);
      }
      if (layer > 0) dy = drop(layer - 1, to_x.values());
    }
  }

 private:
  int64_t wide() const { return p_.directions() * p_.H; }
  bool is_walked_back(int64_t layer, int64_t dir) const { return layer > 0 || only_ < 0 || dir == only_; }

  void forward(const Direction<P>& d) {
    Made& to = at(made_, d.number());
    to.y.assign(static_cast<size_t>(p_.T), zeros(p_.H));  // zeros behind the last step
    to.kept.resize(to.y.size());
    to.h = to.c = zeros(p_.H);
    const auto x_at = [&](int64_t t, int64_t i) { return x(d.layer, t, i); };
    walk_forward(d, in_, b_, x_at, to.h, to.c, [&](int64_t t, const Row& kept) {
      at(to.y, t) = to.h;
      at(to.kept, t) = kept;
    });
  }
  void back(const Direction<P>& d, const Row& dy, Row& dh, Row& dc, auto&& step) const {
    const Made& of = made(d);
    const auto y_at = [&](int64_t t, int64_t j) { return at(at(of.y, t), j); };
    const auto kept = [&](int64_t part, int64_t t, int64_t j) { return at(at(of.kept, t), part * p_.H + j); };
    const auto add_dy = [&](int64_t t, int64_t j, Value& to) {
      const int64_t column = d.dir * p_.H + j;
      to = to + (d.layer == p_.layers - 1 ? exact(in_[P::dy][(t * p_.B + b_) * wide() + column])
                                          : at(dy, t * wide() + column));
    };
    walk_back(d, in_, b_, y_at, kept, add_dy, dh, dc, step);
  }
  // y of a layer, of both directions.
  Row output(int64_t layer) const {
    Row all;
    for (int64_t t = 0; t < p_.T; ++t)
      for (int64_t dir = 0; dir < p_.directions(); ++dir) {
        const Row& y = at(made({p_, dir, layer}).y, t);
        all.insert(all.end(), y.begin(), y.end());
      }
    return all;
  }

  // y of a layer behind its dropout, or the gradient before it. (T, directions H).
  Row drop(int64_t layer, Row values) const {
    if (p_.dropout == 0) return values;
    const Dropout op = p_.dropout_of(layer);
    const auto offset = static_cast<int32_t>(in_[P::offset][0]);
    for (int64_t t = 0; t < p_.T; ++t)
      for (int64_t i = 0; i < wide(); ++i) {
        const uint64_t index = dropout_index(offset, (t * p_.B + b_) * wide() + i);
        const bool keeps = dropout_keeps(index, static_cast<uint64_t>(op.seed), dropout_threshold(op.p));
        Value& value = at(values, t * wide() + i);
        value = keeps ? value * exact(dropout_scale(op.p)) : exact(0);
      }
    return values;
  }

  const P& p_;
  Inputs in_;
  int64_t only_, b_ = 0;
  std::vector<Made> made_;  // by Direction::number
  std::vector<Row> x_;      // (T, features), of layers above the first
};

}  // namespace

template <Cell kCell>
void RecurrentTraining<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  using P = RecurrentTraining;
  const int64_t wide = this->directions() * H;
  if (slice >= B) {
    const int64_t dir = slice - B;
    Stack<P> stack(*this, in, dir);
    std::vector<WeightGradients<false, P>> weights;
    for (int64_t l = 0; l < layers; ++l) weights.emplace_back(Direction<P>{*this, dir, l});
    for (int64_t b = 0; b < B; ++b)
      stack.run(
          b,
          [&](const Direction<P>& d, int64_t t, const Row& da, const Row& dm, const Row& before) {
            if (d.dir != dir) return;
            at(weights, d.layer).add([&](int64_t i) { return stack.x(d.layer, t, i); }, da, dm, before);
          },
          [](const Direction<P>&, const Row&, const Row&) {});
    for (auto& of_layer : weights) of_layer.claim(expect);
    return;
  }
  Stack<P> stack(*this, in, -1);
  InputGradient<P> to_x(*this, in, 0);
  stack.run(
      slice,
      [&](const Direction<P>& d, int64_t t, const Row& da, const Row&, const Row&) {
        if (d.layer == 0) to_x.add(d.dir, t, da);
      },
      [&](const Direction<P>& d, const Row& dh, const Row& dc) {
        const auto& made = stack.made(d);
        claim_state(d, slice, hT, made.h, expect);
        claim_state(d, slice, dh0, dh, expect);
        if constexpr (has_c) {
          claim_state(d, slice, cT, made.c, expect);
          claim_state(d, slice, dc0, dc, expect);
        }
        for (int64_t t = 0; t < T && d.layer == layers - 1; ++t)
          for (int64_t j = 0; j < H; ++j) {
            const Value& value = at(at(made.y, t), j);
            expect(y, (t * B + slice) * wide + d.dir * H + j, value.v, value.deviation());
          }
      });
  claim_dx(*this, slice, to_x.values(), expect);
}

template struct RecurrentTraining<Cell::rnn_tanh>;
template struct RecurrentTraining<Cell::gru>;
template struct RecurrentTraining<Cell::lstm>;

DUET_PROBLEM(RnnTanhTraining);
DUET_PROBLEM(GruTraining);
DUET_PROBLEM(LstmTraining);

}  // namespace duet
