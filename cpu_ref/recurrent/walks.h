// SPDX-License-Identifier: Apache-2.0
// The steps of the references of recurrent layers, forward and backward, and the claims of gradients: what
// recurrent.cpp and recurrent_training.cpp have in common. P: a problem of ops/recurrent/.
#pragma once
#include <algorithm>
#include <vector>

#include "cpu_ref/recurrent/tracked.h"
#include "ops/recurrent/recurrent.h"

namespace duet::tracked {

// The steps of a sequence.
template <class P>
int64_t steps_of(const P& p, Inputs in, int64_t b) {
  return p.padded ? p.length_of(static_cast<int64_t>(in[P::lengths][b])) : p.T;
}

// A direction of a layer: which of h0, r, bias and their gradients belong to it, and its rows of weights of the input.
template <class P>
struct Direction {
  const P& p;
  int64_t dir, layer = 0;

  int64_t number() const { return layer * p.directions() + dir; }
  int64_t features() const { return layer == 0 ? p.I : p.directions() * p.H; }  // of the layer's input
  // The first element of a row of w, one of G H, and of its gradient: of w_above in layers above the first.
  int64_t w_at(int64_t row) const {
    return ((layer == 0 ? dir : number() - p.directions()) * P::G * p.H + row) * features();
  }
  Slot of_layer(Slot first, Slot above) const { return layer == 0 ? first : above; }
  Inputs::Values w(Inputs in) const {
    if constexpr (requires { P::w_above; }) return in[of_layer(P::w, P::w_above)];
    return in[P::w];
  }
  Slot dw() const {
    if constexpr (requires { P::dw_above; }) return of_layer(P::dw, P::dw_above);
    return P::dw;
  }
};

// Sums over all steps and sequences, one for each row and column: gradient of the row times factor of the column. Steps
// are gathered, so that a row of sums is added to many times while it is in a cache. kExact: factors have no errors.
template <bool kExact>
class WeightSums {
 public:
  struct Tracked {
    double v, deviation;
  };
  WeightSums(int64_t rows, int64_t cols)
      : rows_(static_cast<size_t>(rows)),
        cols_(static_cast<size_t>(cols)),
        sums_(rows_ * cols_),
        gradients_(kGathered * rows_),
        factors_(kGathered * cols_) {}
  Tracked& factor(int64_t col) { return factors_[gathered_ * cols_ + static_cast<size_t>(col)]; }
  Tracked& gradient(int64_t row) { return gradients_[gathered_ * rows_ + static_cast<size_t>(row)]; }
  void next() {  // factors and gradients of the step are complete
    if (++gathered_ == kGathered) add_gathered();
  }
  const std::vector<PlainSum>& sums() {  // by rows
    add_gathered();
    return sums_;
  }

 private:
  static constexpr size_t kGathered = 64;  // steps
  void add_gathered() {
    for (size_t row = 0; row < rows_; ++row)
      for (size_t step = 0; step < gathered_; ++step) {
        const Tracked g = gradients_[step * rows_ + row];
        for (size_t col = 0; col < cols_; ++col) {
          const Tracked& factor = factors_[step * cols_ + col];
          if constexpr (kExact)
            sums_[row * cols_ + col].add(factor.v, g.v, g.deviation);
          else
            sums_[row * cols_ + col].add(factor.v, factor.deviation, g.v, g.deviation);
        }
      }
    gathered_ = 0;
  }
  size_t rows_, cols_, gathered_ = 0;
  std::vector<PlainSum> sums_;
  std::vector<Tracked> gradients_, factors_;
};

// Walks one sequence in one direction forward. x(t, i): the layer's input. Calls step(t, kept) for each time, with what
// the backward pass needs, K values for each unit; h and c are then the state. Leaves the last state there.
template <class P>
void walk_forward(const Direction<P>& d, Inputs in, int64_t b, auto&& x, Row& h, Row& c, auto&& step) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G, K = P::K, kBiases = biases_of(kCell);
  const P& p = d.p;
  const int64_t B = p.B, I = d.features(), H = p.H, steps = steps_of(p, in, b), number = d.number();
  const Inputs::Values w = d.w(in);
  // The state before the first step.
  Row a = zeros(G * H), m = zeros(H), kept = zeros(K * H);
  for (int64_t j = 0; j < H; ++j) at(h, j) = exact(in[P::h0][(number * B + b) * H + j]);
  if constexpr (P::has_c)
    for (int64_t j = 0; j < H; ++j) at(c, j) = exact(in[P::c0][(number * B + b) * H + j]);

  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = d.dir == 0 ? s : steps - 1 - s;
    // The sums before the gates. In gru the part of h in the last gate, m, stays apart from the part of x, because r is
    // applied to it alone.
    for (int64_t g = 0; g < G * H; ++g) {
      const bool apart = kCell == Cell::gru && g >= 2 * H;
      // Each product may be rounded before its bias is added, which can cancel most of it.
      Sum input, recurrent;
      for (int64_t i = 0; i < I; ++i) input.add(w[d.w_at(g) + i], x(t, i));
      for (int64_t j = 0; j < H; ++j) recurrent.add(in[P::r][(number * G * H + g) * H + j], at(h, j));
      const Value from_input = input.value(p, I) + exact(in[P::bias][(number * kBiases) * G * H + g]);
      Value from_state = recurrent.value(p, H);
      if (kBiases == 2) from_state = from_state + exact(in[P::bias][(number * kBiases + 1) * G * H + g]);
      at(a, g) = apart ? from_input : from_input + from_state;
      if (apart) at(m, g - 2 * H) = from_state;
    }
    // Gates and the new state.
    for (int64_t j = 0; j < H; ++j) {
      const auto keep = [&](int64_t part, const Value& value) { at(kept, part * H + j) = value; };
      if constexpr (kCell == Cell::lstm) {
        const Value i = logistic(at(a, j)), f = logistic(at(a, H + j)), g = tanh(at(a, 2 * H + j)),
                    o = logistic(at(a, 3 * H + j));
        at(c, j) = f * at(c, j) + i * g;
        at(h, j) = o * tanh(at(c, j));
        keep(0, i);
        keep(1, f);
        keep(2, g);
        keep(3, o);
        keep(4, at(c, j));
      } else if constexpr (kCell == Cell::gru) {
        const Value z = logistic(at(a, j)), r = logistic(at(a, H + j)), n = tanh(at(a, 2 * H + j) + r * at(m, j));
        at(h, j) = (exact(1) - z) * n + z * at(h, j);
        keep(0, z);
        keep(1, r);
        keep(2, n);
        keep(3, at(m, j));
      } else {
        at(h, j) = tanh(at(a, j));
      }
    }
    step(t, kept);
  }
}

// Walks one sequence in one direction backward. y(t, j) and kept(part, t, j): what the forward pass left at a time,
// of unit j. add_dy(t, j, dh): adds the gradient of y. Calls step(t, da, dm, before) for each time with the gradients
// before the gates, in gru also dm, the gradient of what r multiplies, and the state before the step. Leaves dh and
// dc as the gradients of h0 and c0.
template <class P>
void walk_back(const Direction<P>& direction, Inputs in, int64_t b, auto&& y, auto&& kept, auto&& add_dy, Row& dh,
               Row& dc, auto&& step) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G;
  const P& p = direction.p;
  const int64_t B = p.B, H = p.H, steps = steps_of(p, in, b), number = direction.number();
  Row da = zeros(G * H), dm = zeros(H), before = zeros(H);
  Sums products = sums(H);
  for (int64_t j = 0; j < H; ++j) at(dh, j) = exact(in[P::dhT][(number * B + b) * H + j]);
  if constexpr (P::has_c)
    for (int64_t j = 0; j < H; ++j) at(dc, j) = exact(in[P::dcT][(number * B + b) * H + j]);

  for (int64_t s = steps - 1; s >= 0; --s) {
    const bool ahead = direction.dir == 0;
    const int64_t t = ahead ? s : steps - 1 - s, earlier = ahead ? t - 1 : t + 1;
    for (int64_t j = 0; j < H; ++j) {
      const Value one = exact(1), h = s > 0 ? y(earlier, j) : exact(in[P::h0][(number * B + b) * H + j]);
      add_dy(t, j, at(dh, j));
      const Value d = at(dh, j);
      at(before, j) = h;
      if constexpr (kCell == Cell::lstm) {
        const Value i = kept(0, t, j), f = kept(1, t, j), g = kept(2, t, j), o = kept(3, t, j),
                    tanh_c = tanh(kept(4, t, j));
        const Value c = s > 0 ? kept(4, earlier, j) : exact(in[P::c0][(number * B + b) * H + j]);
        const Value total = at(dc, j) + d * o * (one - tanh_c * tanh_c);
        at(da, j) = total * g * i * (one - i);
        at(da, H + j) = total * c * f * (one - f);
        at(da, 2 * H + j) = total * i * (one - g * g);
        at(da, 3 * H + j) = d * tanh_c * o * (one - o);
        at(dc, j) = total * f;
      } else if constexpr (kCell == Cell::gru) {
        const Value z = kept(0, t, j), r = kept(1, t, j), n = kept(2, t, j), m = kept(3, t, j);
        const Value dn = d * (one - z) * (one - n * n);
        at(da, j) = d * (h - n) * z * (one - z);
        at(da, H + j) = dn * m * r * (one - r);
        at(da, 2 * H + j) = dn;
        at(dm, j) = dn * r;
        at(dh, j) = d * z;
      } else {
        const Value v = y(t, j);
        at(da, j) = d * (one - v * v);
      }
    }
    step(t, da, dm, before);
    std::fill(products.begin(), products.end(), Sum{});
    for (int64_t g = 0; g < G * H; ++g) {
      const Value& gradient = kCell == Cell::gru && g >= 2 * H ? at(dm, g - 2 * H) : at(da, g);
      for (int64_t j = 0; j < H; ++j) at(products, j).add(in[P::r][(number * G * H + g) * H + j], gradient);
    }
    for (int64_t j = 0; j < H; ++j) {
      const Value product = at(products, j).value(p, G * H);
      at(dh, j) = kCell == Cell::gru ? product + at(dh, j) : product;
    }
  }
}

// The gradients of the weights of a direction, over all sequences: dw, dr, dbias. kExact: as in WeightSums, of x and y.
template <bool kExact, class P>
class WeightGradients {
 public:
  explicit WeightGradients(const Direction<P>& d)
      : d_(d),
        to_w_(kRows * d.p.H, d.features()),
        to_r_(kRows * d.p.H, d.p.H),
        to_bias_(sums(kBiases * kRows * d.p.H)) {}

  // A step of walk_back. x(i): of the layer's input.
  void add(auto&& x, const Row& da, const Row& dm, const Row& before) {
    const int64_t H = d_.p.H, gates = kRows * H;
    for (int64_t i = 0; i < d_.features(); ++i) {
      const Value& input = x(i);
      to_w_.factor(i) = {input.v, kExact ? 0 : input.deviation()};
    }
    for (int64_t j = 0; j < H; ++j) to_r_.factor(j) = {at(before, j).v, at(before, j).deviation()};
    for (int64_t g = 0; g < gates; ++g) {
      const Value &input = at(da, g), &recurrent = P::kind == Cell::gru && g >= 2 * H ? at(dm, g - 2 * H) : input;
      to_w_.gradient(g) = {input.v, input.deviation()};
      to_r_.gradient(g) = {recurrent.v, recurrent.deviation()};
      at(to_bias_, g).add(1, input);
      if (kBiases == 2) at(to_bias_, gates + g).add(1, recurrent);
    }
    to_w_.next();
    to_r_.next();
  }
  void claim(Expect& expect) {
    const P& p = d_.p;
    const auto claim_all = [&](Slot slot, int64_t first, WeightSums<kExact>& all) {
      for (const PlainSum& sum : all.sums()) expect(slot, first++, sum.sum(), sum.error(sum.unit(p, p.T * p.B)));
    };
    claim_all(d_.dw(), d_.w_at(0), to_w_);
    claim_all(P::dr, d_.number() * kRows * p.H * p.H, to_r_);
    const auto biases = static_cast<int64_t>(to_bias_.size());
    for (int64_t i = 0; i < biases; ++i) {
      const Value sum = at(to_bias_, i).value(p, p.T * p.B);
      expect(P::dbias, d_.number() * biases + i, sum.v, sum.deviation());
    }
  }

 private:
  static constexpr int64_t kRows = P::G, kBiases = biases_of(P::kind);
  Direction<P> d_;
  WeightSums<kExact> to_w_, to_r_;
  Sums to_bias_;
};

// The gradient of a sequence's x in a layer, (T, I), from the steps of both directions.
template <class P>
class InputGradient {
 public:
  InputGradient(const P& p, Inputs in, int64_t layer)
      : p_(p), in_(in), layer_(layer), sums_(sums(p.T * Direction<P>{p, 0, layer}.features())) {}
  void add(int64_t dir, int64_t t, const Row& da) {
    const Direction<P> d{p_, dir, layer_};
    const Inputs::Values w = d.w(in_);
    const int64_t I = d.features();
    for (int64_t g = 0; g < P::G * p_.H; ++g)
      for (int64_t i = 0; i < I; ++i) at(sums_, t * I + i).add(w[d.w_at(g) + i], at(da, g));
  }
  Row values() const {
    Row all;
    for (const Sum& sum : sums_) all.push_back(sum.value(p_, p_.directions() * P::G * p_.H));
    return all;
  }

 private:
  const P& p_;
  Inputs in_;
  int64_t layer_;
  Sums sums_;
};

// dx of a sequence.
template <class P>
void claim_dx(const P& p, int64_t b, const Row& dx, Expect& expect) {
  for (int64_t t = 0; t < p.T; ++t)
    for (int64_t i = 0; i < p.I; ++i) {
      const Value& value = at(dx, t * p.I + i);
      expect(P::dx, (t * p.B + b) * p.I + i, value.v, value.deviation());
    }
}
// A state of a sequence in a direction, or its gradient.
template <class P>
void claim_state(const Direction<P>& d, int64_t b, Slot slot, const Row& state, Expect& expect) {
  const int64_t H = d.p.H;
  for (int64_t j = 0; j < H; ++j)
    expect(slot, (d.number() * d.p.B + b) * H + j, at(state, j).v, at(state, j).deviation());
}

}  // namespace duet::tracked
