// SPDX-License-Identifier: Apache-2.0
// Reference for rnn_tanh, gru, lstm and their backward passes: serial, in double, the formulas of the contract
// (ops/recurrent/recurrent.h) and nothing else. A slice is a sequence in one direction; backward, it is a sequence or,
// after those, the weights of one direction. Values carry the deviation of their error through the steps; it is the
// abs_sum of their claims (RecurrentBase::unit).
#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/registry.h"

namespace duet {
namespace tracked {

// A value and the deviation of its error, in the units of the contract. Every operation rounds, and therefore adds one
// unit of its result. e takes the errors of the operands as independent. Over many steps they are not: most of what is
// left of old roundings lies in the direction that fades least, as the state itself does, and its parts add up. So a
// value has kDraws errors with signs as well, which follow the same operations; each rounding has another sign in each
// of them. Half of their mean square is the square of the deviation where it is the larger one. Half: so few draws
// scatter, and independent errors are not to have a wider bound for that.
constexpr int kDraws = 8;
using Draws = std::array<double, kDraws>;
struct Value {
  double v = 0, e = 0;
  Draws s{};
  double deviation() const {
    double squares = 0;
    for (const double error : s) squares += error * error;
    return std::max(e, std::sqrt(squares / (2 * kDraws)));
  }
};
double square(double v) { return v * v; }
double root(double a, double b, double c) { return std::sqrt(a * a + b * b + c * c); }

constexpr std::array<Draws, 1 << kDraws> kSigns = [] {
  std::array<Draws, 1 << kDraws> all{};
  for (size_t bits = 0; bits < all.size(); ++bits)
    for (size_t k = 0; k < kDraws; ++k) all[bits][k] = (bits >> k & 1) != 0 ? 1 : -1;
  return all;
}();
// A value that was rounded: its signs are a hash of it. unit: what the rounding amounts to.
Value rounded(double v, double e, double unit, auto&& error) {
  auto bits = std::bit_cast<uint64_t>(v);
  bits = (bits ^ bits >> 32) * 0x9E3779B97F4A7C15;
  const Draws& signs = kSigns[bits >> (64 - kDraws)];
  Value value{v, e};
  for (size_t k = 0; k < kDraws; ++k) value.s[k] = error(k) + signs[k] * unit;
  return value;
}
Value exact(double v) { return {v, 0}; }
Value operator+(const Value& a, const Value& b) {
  const double v = a.v + b.v;
  return rounded(v, root(a.e, b.e, v), v, [&](size_t k) { return a.s[k] + b.s[k]; });
}
Value operator-(const Value& a, const Value& b) {
  const double v = a.v - b.v;
  return rounded(v, root(a.e, b.e, v), v, [&](size_t k) { return a.s[k] - b.s[k]; });
}
Value operator*(const Value& a, const Value& b) {
  const double v = a.v * b.v;
  return rounded(v, root(a.v * b.e, b.v * a.e, v), v, [&](size_t k) { return a.v * b.s[k] + b.v * a.s[k]; });
}
// tanh and logistic may have an absolute error of 1 unit, so that 1 - 2 / (1 + exp(2 x)) is allowed.
Value tanh(const Value& a) {
  const double t = std::tanh(a.v), slope = 1 - t * t;
  return rounded(t, root(slope * a.e, 1, 0), 1, [&](size_t k) { return slope * a.s[k]; });
}
Value logistic(const Value& a) {
  const double s = 1 / (1 + std::exp(-a.v)), slope = s * (1 - s);
  return rounded(s, root(slope * a.e, 1, 0), 1, [&](size_t k) { return slope * a.s[k]; });
}
// A sum of products. It has the error of each term once, those of the additions, and one rounding at its end. This one
// takes the errors of its terms as independent. They are so as well where their factors have both signs, and nothing to
// do with them: in gradients of weights.
class PlainSum {
 public:
  // deviation: of b.
  void add(double a, double b, double deviation) {
    terms_.add(a * b);
    square_ += square(a * deviation);
  }
  double sum() const { return terms_.sum(); }
  double unit(const auto& p, int64_t count) const {  // of what the sum itself rounds
    return std::hypot(p.units_of_sum(static_cast<double>(count), sum(), terms_.root_sum()), sum());
  }
  double error(double unit) const { return std::sqrt(square_ + square(unit)); }

 private:
  TermSum terms_;
  double square_ = 0;
};
// A sum that carries the errors with signs as well.
class Sum {
 public:
  void add(double a, const Value& b) {
    plain_.add(a, b.v, b.e);
    for (size_t k = 0; k < kDraws; ++k) s_[k] += a * b.s[k];
  }
  Value value(const auto& p, int64_t count) const {
    const double unit = plain_.unit(p, count);
    return rounded(plain_.sum(), plain_.error(unit), unit, [&](size_t k) { return s_[k]; });
  }

 private:
  PlainSum plain_;
  Draws s_{};
};

using Row = std::vector<Value>;
using Sums = std::vector<Sum>;
Row zeros(int64_t n) { return Row(static_cast<size_t>(n)); }
Sums sums(int64_t n) { return Sums(static_cast<size_t>(n)); }
auto& at(auto& row, int64_t i) { return row[static_cast<size_t>(i)]; }

// Sums over all steps and sequences, one for each row and column: gradient of the row times factor of the column. Steps
// are gathered, so that a row of sums is added to many times while it is in a cache.
class WeightSums {
 public:
  struct Gradient {
    double v, deviation;
  };
  WeightSums(int64_t rows, int64_t cols)
      : rows_(static_cast<size_t>(rows)),
        cols_(static_cast<size_t>(cols)),
        sums_(rows_ * cols_),
        gradients_(kGathered * rows_),
        factors_(kGathered * cols_) {}
  double& factor(int64_t col) { return factors_[gathered_ * cols_ + static_cast<size_t>(col)]; }
  Gradient& gradient(int64_t row) { return gradients_[gathered_ * rows_ + static_cast<size_t>(row)]; }
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
        const Gradient g = gradients_[step * rows_ + row];
        for (size_t col = 0; col < cols_; ++col)
          sums_[row * cols_ + col].add(factors_[step * cols_ + col], g.v, g.deviation);
      }
    gathered_ = 0;
  }
  size_t rows_, cols_, gathered_ = 0;
  std::vector<PlainSum> sums_;
  std::vector<Gradient> gradients_;
  std::vector<double> factors_;
};

// The steps of a sequence.
template <class P>
int64_t steps_of(const P& p, Inputs in, int64_t b) {
  return p.padded ? p.length_of(static_cast<int64_t>(in[P::lengths][b])) : p.T;
}

}  // namespace tracked
using namespace tracked;  // NOLINT: the arithmetic of values with errors

template <Cell kCell>
void Recurrent<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  constexpr int64_t G = Base::G, K = Base::K, kBiases = biases_of(kCell);
  const int64_t dir = slice / B, b = slice % B, steps = steps_of(*this, in, b);
  // The state before the first step.
  Row h = zeros(H), c = zeros(H), a = zeros(G * H), m = zeros(H);
  for (int64_t j = 0; j < H; ++j) at(h, j) = exact(in[h0][slice * H + j]);
  if constexpr (has_c)
    for (int64_t j = 0; j < H; ++j) at(c, j) = exact(in[c0][slice * H + j]);

  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = dir == 0 ? step : steps - 1 - step;
    // The sums before the gates. In gru the part of h in the last gate, m, stays apart from the part of x, because r is
    // applied to it alone.
    for (int64_t g = 0; g < G * H; ++g) {
      const bool apart = kCell == Cell::gru && g >= 2 * H;
      // Each product may be rounded before its bias is added, which can cancel most of it.
      Sum input, recurrent;
      for (int64_t i = 0; i < I; ++i) input.add(in[w][(dir * G * H + g) * I + i], exact(in[x][(t * B + b) * I + i]));
      for (int64_t j = 0; j < H; ++j) recurrent.add(in[r][(dir * G * H + g) * H + j], at(h, j));
      const Value from_input = input.value(*this, I) + exact(in[bias][(dir * kBiases) * G * H + g]);
      Value from_state = recurrent.value(*this, H);
      if (kBiases == 2) from_state = from_state + exact(in[bias][(dir * kBiases + 1) * G * H + g]);
      at(a, g) = apart ? from_input : from_input + from_state;
      if (apart) at(m, g - 2 * H) = from_state;
    }
    // Gates and the new state.
    for (int64_t j = 0; j < H; ++j) {
      const int64_t kept = ((dir * T + t) * B + b) * K * H + j;
      const auto keep = [&](int64_t part, const Value& value) {
        if (!inference) expect(reserve, kept + part * H, value.v, value.deviation());
      };
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
      expect(y, (t * B + b) * this->directions() * H + dir * H + j, at(h, j).v, at(h, j).deviation());
    }
  }
  // Zeros behind the last step.
  for (int64_t t = steps; t < T; ++t) {
    for (int64_t j = 0; j < H; ++j) expect(y, (t * B + b) * this->directions() * H + dir * H + j, 0);
    for (int64_t i = 0; i < K * H && !inference; ++i) expect(reserve, ((dir * T + t) * B + b) * K * H + i, 0);
  }
  for (int64_t j = 0; j < H; ++j) {
    expect(hT, slice * H + j, at(h, j).v, at(h, j).deviation());
    if constexpr (has_c) expect(cT, slice * H + j, at(c, j).v, at(c, j).deviation());
  }
}

namespace tracked {

// Walks one sequence in one direction backward. Calls step(t, da, dm, before) for each time with the gradients before
// the gates, in gru also dm, the gradient of what r multiplies, and the state before the step. Leaves dh and dc as the
// gradients of h0 and c0.
template <class P>
void walk_back(const P& p, Inputs in, int64_t dir, int64_t b, Row& dh, Row& dc, auto&& step) {
  constexpr Cell kCell = P::kind;
  constexpr int64_t G = P::G, K = P::K;
  const int64_t T = p.T, B = p.B, H = p.H, wide = p.directions() * H, steps = steps_of(p, in, b);
  Row da = zeros(G * H), dm = zeros(H), before = zeros(H);
  Sums products = sums(H);
  for (int64_t j = 0; j < H; ++j) at(dh, j) = exact(in[P::dhT][(dir * B + b) * H + j]);
  if constexpr (P::has_c)
    for (int64_t j = 0; j < H; ++j) at(dc, j) = exact(in[P::dcT][(dir * B + b) * H + j]);

  for (int64_t s = steps - 1; s >= 0; --s) {
    const int64_t t = dir == 0 ? s : steps - 1 - s, earlier = dir == 0 ? t - 1 : t + 1;
    for (int64_t j = 0; j < H; ++j) {
      const auto kept = [&](int64_t part, int64_t time) {
        return exact(in[P::reserve][((dir * T + time) * B + b) * K * H + part * H + j]);
      };
      const Value one = exact(1), h = s > 0 ? exact(in[P::y][(earlier * B + b) * wide + dir * H + j])
                                            : exact(in[P::h0][(dir * B + b) * H + j]);
      if (!p.last_only) at(dh, j) = at(dh, j) + exact(in[P::dy][(t * B + b) * wide + dir * H + j]);
      const Value d = at(dh, j);
      at(before, j) = h;
      if constexpr (kCell == Cell::lstm) {
        const Value i = kept(0, t), f = kept(1, t), g = kept(2, t), o = kept(3, t), tanh_c = tanh(kept(4, t));
        const Value c = s > 0 ? kept(4, earlier) : exact(in[P::c0][(dir * B + b) * H + j]);
        const Value total = at(dc, j) + d * o * (one - tanh_c * tanh_c);
        at(da, j) = total * g * i * (one - i);
        at(da, H + j) = total * c * f * (one - f);
        at(da, 2 * H + j) = total * i * (one - g * g);
        at(da, 3 * H + j) = d * tanh_c * o * (one - o);
        at(dc, j) = total * f;
      } else if constexpr (kCell == Cell::gru) {
        const Value z = kept(0, t), r = kept(1, t), n = kept(2, t), m = kept(3, t);
        const Value dn = d * (one - z) * (one - n * n);
        at(da, j) = d * (h - n) * z * (one - z);
        at(da, H + j) = dn * m * r * (one - r);
        at(da, 2 * H + j) = dn;
        at(dm, j) = dn * r;
        at(dh, j) = d * z;
      } else {
        const Value v = exact(in[P::y][(t * B + b) * wide + dir * H + j]);
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

}  // namespace tracked

template <Cell kCell>
void RecurrentBackward<kCell>::reference(Inputs in, int64_t slice, Expect& expect) const {
  Row dh = zeros(H), dc = zeros(H);
  // A sequence: dx, dh0, dc0.
  if (slice < B) {
    Sums to_x = sums(T * I);
    for (int64_t dir = 0; dir < this->directions(); ++dir) {
      walk_back(*this, in, dir, slice, dh, dc, [&](int64_t t, Row& da, Row&, Row&) {
        for (int64_t g = 0; g < G * H; ++g)
          for (int64_t i = 0; i < I; ++i) at(to_x, t * I + i).add(in[w][(dir * G * H + g) * I + i], at(da, g));
      });
      for (int64_t j = 0; j < H; ++j) {
        expect(dh0, (dir * B + slice) * H + j, at(dh, j).v, at(dh, j).deviation());
        if constexpr (has_c) expect(dc0, (dir * B + slice) * H + j, at(dc, j).v, at(dc, j).deviation());
      }
    }
    for (int64_t t = 0; t < T; ++t)
      for (int64_t i = 0; i < I; ++i) {
        const Value sum = at(to_x, t * I + i).value(*this, this->directions() * G * H);
        expect(dx, (t * B + slice) * I + i, sum.v, sum.deviation());
      }
    return;
  }
  // The weights of a direction: dw, dr, dbias.
  const int64_t dir = slice - B;
  constexpr int64_t kBiases = biases_of(kCell);
  WeightSums to_w(G * H, I), to_r(G * H, H);
  Sums to_bias = sums(kBiases * G * H);
  for (int64_t b = 0; b < B; ++b)
    walk_back(*this, in, dir, b, dh, dc, [&](int64_t t, Row& da, Row& dm, Row& before) {
      for (int64_t i = 0; i < I; ++i) to_w.factor(i) = in[x][(t * B + b) * I + i];
      for (int64_t j = 0; j < H; ++j) to_r.factor(j) = at(before, j).v;
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
  const auto claim = [&](Slot slot, WeightSums& all) {
    int64_t index = dir * static_cast<int64_t>(all.sums().size());
    for (const PlainSum& sum : all.sums()) expect(slot, index++, sum.sum(), sum.error(sum.unit(*this, T * B)));
  };
  claim(dw, to_w);
  claim(dr, to_r);
  const auto biases = static_cast<int64_t>(to_bias.size());
  for (int64_t i = 0; i < biases; ++i) {
    const Value sum = at(to_bias, i).value(*this, T * B);
    expect(dbias, dir * biases + i, sum.v, sum.deviation());
  }
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
