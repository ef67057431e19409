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

// Walks one sequence in one direction forward. Calls step(t, kept) for each time, with what the backward pass needs, K
// values for each unit; h and c are then the state. Leaves the last state there.
template <class P>
void walk_forward(const P& p, Inputs in, int64_t dir, int64_t b, Row& h, Row& c, auto&& step) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G, K = P::K, kBiases = biases_of(kCell);
  const int64_t B = p.B, I = p.I, H = p.H, steps = steps_of(p, in, b);
  // The state before the first step.
  Row a = zeros(G * H), m = zeros(H), kept = zeros(K * H);
  for (int64_t j = 0; j < H; ++j) at(h, j) = exact(in[P::h0][(dir * B + b) * H + j]);
  if constexpr (P::has_c)
    for (int64_t j = 0; j < H; ++j) at(c, j) = exact(in[P::c0][(dir * B + b) * H + j]);

  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = dir == 0 ? s : steps - 1 - s;
    // The sums before the gates. In gru the part of h in the last gate, m, stays apart from the part of x, because r is
    // applied to it alone.
    for (int64_t g = 0; g < G * H; ++g) {
      const bool apart = kCell == Cell::gru && g >= 2 * H;
      // Each product may be rounded before its bias is added, which can cancel most of it.
      Sum input, recurrent;
      for (int64_t i = 0; i < I; ++i)
        input.add(in[P::w][(dir * G * H + g) * I + i], exact(in[P::x][(t * B + b) * I + i]));
      for (int64_t j = 0; j < H; ++j) recurrent.add(in[P::r][(dir * G * H + g) * H + j], at(h, j));
      const Value from_input = input.value(p, I) + exact(in[P::bias][(dir * kBiases) * G * H + g]);
      Value from_state = recurrent.value(p, H);
      if (kBiases == 2) from_state = from_state + exact(in[P::bias][(dir * kBiases + 1) * G * H + g]);
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

// Walks one sequence in one direction backward. y(t, j) and kept(part, t, j): what the forward pass left at a time, of
// unit j. Calls step(t, da, dm, before) for each time with the gradients before the gates, in gru also dm, the gradient
// of what r multiplies, and the state before the step. Leaves dh and dc as the gradients of h0 and c0.
template <class P>
void walk_back(const P& p, Inputs in, int64_t dir, int64_t b, auto&& y, auto&& kept, Row& dh, Row& dc, auto&& step) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G;
  const int64_t B = p.B, H = p.H, wide = p.directions() * H, steps = steps_of(p, in, b);
  Row da = zeros(G * H), dm = zeros(H), before = zeros(H);
  Sums products = sums(H);
  for (int64_t j = 0; j < H; ++j) at(dh, j) = exact(in[P::dhT][(dir * B + b) * H + j]);
  if constexpr (P::has_c)
    for (int64_t j = 0; j < H; ++j) at(dc, j) = exact(in[P::dcT][(dir * B + b) * H + j]);

  for (int64_t s = steps - 1; s >= 0; --s) {
    const int64_t t = dir == 0 ? s : steps - 1 - s, earlier = dir == 0 ? t - 1 : t + 1;
    for (int64_t j = 0; j < H; ++j) {
      const Value one = exact(1), h = s > 0 ? y(earlier, j) : exact(in[P::h0][(dir * B + b) * H + j]);
      bool reads_dy = true;
      if constexpr (requires { p.last_only; }) reads_dy = !p.last_only;
      if (reads_dy) at(dh, j) = at(dh, j) + exact(in[P::dy][(t * B + b) * wide + dir * H + j]);
      const Value d = at(dh, j);
      at(before, j) = h;
      if constexpr (kCell == Cell::lstm) {
        const Value i = kept(0, t, j), f = kept(1, t, j), g = kept(2, t, j), o = kept(3, t, j),
                    tanh_c = tanh(kept(4, t, j));
        const Value c = s > 0 ? kept(4, earlier, j) : exact(in[P::c0][(dir * B + b) * H + j]);
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
      for (int64_t j = 0; j < H; ++j) at(products, j).add(in[P::r][(dir * G * H + g) * H + j], gradient);
    }
    for (int64_t j = 0; j < H; ++j) {
      const Value product = at(products, j).value(p, G * H);
      at(dh, j) = kCell == Cell::gru ? product + at(dh, j) : product;
    }
  }
}

// The gradients of the weights of a direction: dw, dr, dbias. walk(b, step): walks sequence b back.
template <bool kExact, class P>
void claim_weights(const P& p, Inputs in, int64_t dir, auto&& walk, Expect& expect) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G, kBiases = biases_of(kCell);
  const int64_t B = p.B, I = p.I, H = p.H;
  WeightSums<kExact> to_w(G * H, I), to_r(G * H, H);
  Sums to_bias = sums(kBiases * G * H);
  for (int64_t b = 0; b < B; ++b)
    walk(b, [&](int64_t t, Row& da, Row& dm, Row& before) {
      for (int64_t i = 0; i < I; ++i) to_w.factor(i) = {in[P::x][(t * B + b) * I + i], 0};
      for (int64_t j = 0; j < H; ++j) to_r.factor(j) = {at(before, j).v, at(before, j).deviation()};
      for (int64_t g = 0; g < G * H; ++g) {
        const Value &input = at(da, g), &recurrent = kCell == Cell::gru && g >= 2 * H ? at(dm, g - 2 * H) : input;
        to_w.gradient(g) = {input.v, input.deviation()};
        to_r.gradient(g) = {recurrent.v, recurrent.deviation()};
        at(to_bias, g).add(1, input);
        if (kBiases == 2) at(to_bias, G * H + g).add(1, recurrent);
      }
      to_w.next();
      to_r.next();
    });
  const auto claim = [&](Slot slot, WeightSums<kExact>& all) {
    int64_t index = dir * static_cast<int64_t>(all.sums().size());
    for (const PlainSum& sum : all.sums()) expect(slot, index++, sum.sum(), sum.error(sum.unit(p, p.T * B)));
  };
  claim(P::dw, to_w);
  claim(P::dr, to_r);
  const auto biases = static_cast<int64_t>(to_bias.size());
  for (int64_t i = 0; i < biases; ++i) {
    const Value sum = at(to_bias, i).value(p, p.T * B);
    expect(P::dbias, dir * biases + i, sum.v, sum.deviation());
  }
}

// The gradients of a sequence: dx, dh0, dc0. walk(dir, dh, dc, step): walks it back in a direction.
template <class P>
void claim_sequence(const P& p, Inputs in, int64_t b, auto&& walk, Expect& expect) {
  constexpr int64_t G = P::G;
  const int64_t T = p.T, B = p.B, I = p.I, H = p.H;
  Row dh = zeros(H), dc = zeros(H);
  Sums to_x = sums(T * I);
  for (int64_t dir = 0; dir < p.directions(); ++dir) {
    walk(dir, dh, dc, [&](int64_t t, Row& da, Row&, Row&) {
      for (int64_t g = 0; g < G * H; ++g)
        for (int64_t i = 0; i < I; ++i) at(to_x, t * I + i).add(in[P::w][(dir * G * H + g) * I + i], at(da, g));
    });
    for (int64_t j = 0; j < H; ++j) {
      expect(P::dh0, (dir * B + b) * H + j, at(dh, j).v, at(dh, j).deviation());
      if constexpr (P::has_c) expect(P::dc0, (dir * B + b) * H + j, at(dc, j).v, at(dc, j).deviation());
    }
  }
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < I; ++i) {
      const Value sum = at(to_x, t * I + i).value(p, p.directions() * G * H);
      expect(P::dx, (t * B + b) * I + i, sum.v, sum.deviation());
    }
}

}  // namespace duet::tracked
