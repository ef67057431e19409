// SPDX-License-Identifier: Apache-2.0
// Reference for attention, packed or not, and its backward: serial, in double, the formulas of the contracts
// (ops/attention/) and nothing else. A slice is a query; backward, the slices after those of the queries are keys. The
// abs_sum of each claim is the deviation that is derived at AttentionShape::tolerance_of_deviation.
#include "core/registry.h"
#include "ops/attention/attention_packed.h"

namespace duet {
namespace {

double square(double v) { return v * v; }

// A dot product, and the standard deviation of its error.
struct Dot {
  double sum = 0, deviation = 0;
};
// Rows of D features, those of the heads wherever they lie.
struct Rows {
  Inputs::Values values;
  HeadRows place;
  double at(int64_t head, int64_t i, int64_t c) const { return values[place.at(head, i) + c]; }
};
struct Row {
  Row(const Rows& rows, int64_t head, int64_t i) : values(rows.values), first(rows.place.at(head, i)) {}
  double operator[](int64_t c) const { return values[first + c]; }
  Inputs::Values values;
  int64_t first;
};
Dot dot(const AttentionShape& p, Row a, Row b) {
  TermSum d;
  for (int64_t c = 0; c < p.D; ++c) d.add(a[c] * b[c]);
  return {d.sum(), p.deviation_of_sum(static_cast<double>(p.D), d.sum(), d.root_sum())};
}

// A score, and the deviation of exp(score - level), relative, before it is rounded to dtype.
struct Score {
  double s, deviation;
};
Score score_of(const AttentionShape& p, const Dot& dot, double level) {
  const double s = p.factor() * dot.sum;
  return {s, std::sqrt(square(p.factor() * dot.deviation) + square(p.deviation_of_score() * s) +
                       square(p.u_sum() * (std::abs(s) + std::abs(level))) + square(6 * p.u_sum()))};
}

// The number of keys of a sequence.
int64_t length(const AttentionShape& p, Inputs in, Slot lengths, int64_t sequence) {
  return p.padded ? p.length_of(static_cast<int64_t>(in[lengths][sequence])) : p.Tk;
}

// A sum of terms, and the deviation of their errors.
class Sum {
 public:
  void add(double factor, double factor_deviation, double value) {
    terms_.add(factor * value);
    square_ += square(factor_deviation * value);
  }
  double sum() const { return terms_.sum(); }
  double deviation(const AttentionShape& p, int64_t count) const {
    return std::sqrt(square_) + p.deviation_of_sum(static_cast<double>(count), terms_.sum(), terms_.root_sum());
  }

 private:
  TermSum terms_;
  double square_ = 0;
};

// One query, `row` of all heads. Calls claim_lse(value, deviation) and claim_y(c, value, deviation).
void reference_of_forward(const AttentionShape& p, const Rows& q, const Rows& k, const Rows& v, int64_t length,
                          int64_t row, auto&& claim_lse, auto&& claim_y) {
  const int64_t head = row / p.Tq, query = row % p.Tq, kv = head / p.H * p.kv_heads() + head % p.H / p.group();
  const AttentionShape::Keys seen = p.seen(query, length);
  const int64_t keys = seen.last - seen.first;

  // Scores, their maximum and the sum of exponentials.
  std::vector<Dot> product(static_cast<size_t>(keys));
  double max = -INFINITY;
  for (int64_t j = 0; j < keys; ++j) {
    Dot& d = product[static_cast<size_t>(j)] = dot(p, {q, head, query}, {k, kv, seen.first + j});
    max = std::max(max, p.factor() * d.sum);
  }
  std::vector<Score> score;
  TermSum sum;
  for (const Dot& d : product) {
    score.push_back(score_of(p, d, max));
    sum.add(std::exp(score.back().s - max));
  }
  // The logarithm moves by the mean of the scores' errors, and by the relative error of the sum.
  double square_of_mean = 0;
  for (const Score& s : score) square_of_mean += square(std::exp(s.s - max) / sum.sum() * s.deviation);
  claim_lse(max + std::log(sum.sum()),
            std::sqrt(square_of_mean) + p.deviation_of_sum(static_cast<double>(keys), 1, sum.root_sum() / sum.sum()) +
                p.u_sum() * (1 + std::abs(max)));

  // The weighted sum of the rows of v. An error of a probability also moves the sum by which it is divided: by y
  // instead of v.
  std::vector<Sum> out(static_cast<size_t>(p.D));
  for (int64_t j = 0; j < keys; ++j) {
    const Score& s = score[static_cast<size_t>(j)];
    const double weight = std::exp(s.s - max) / sum.sum();
    const double deviation = weight * std::hypot(s.deviation, p.deviation_half());
    for (int64_t c = 0; c < p.D; ++c) out[static_cast<size_t>(c)].add(weight, deviation, v.at(kv, seen.first + j, c));
  }
  for (int64_t c = 0; c < p.D; ++c) {
    const Sum& o = out[static_cast<size_t>(c)];
    claim_y(c, o.sum(), o.deviation(p, keys) + std::abs(o.sum()) * (std::sqrt(square_of_mean) + p.deviation_half()));
  }
}

struct Gradients {  // what the gradients are computed from; lse: (heads, Tq)
  Rows q, k, v, y, dy;
  Inputs::Values lse;
};
// Calls use(p, ds, delta) for a query and a key that it sees: the probability and the gradient of the score with their
// deviations, and what the error of delta does to ds.
void reference_of_pair(const AttentionShape& p, const Gradients& t, int64_t head, int64_t kv, int64_t query,
                       int64_t key, auto&& use) {
  const Dot dp = dot(p, {t.dy, head, query}, {t.v, kv, key}), delta = dot(p, {t.dy, head, query}, {t.y, head, query});
  const double level = t.lse[head * p.Tq + query];
  const Score s = score_of(p, dot(p, {t.q, head, query}, {t.k, kv, key}), level);
  const double weight = std::exp(s.s - level), slope = p.factor() * weight, ds = slope * (dp.sum - delta.sum);
  const double of_scores = std::hypot(s.deviation, p.deviation_half());  // or rounding p, or ds
  use(Dot{weight, weight * of_scores},
      Dot{ds, std::hypot(ds * of_scores, slope * std::hypot(dp.deviation, p.deviation_half() * dp.sum))},
      slope * delta.deviation);
}

// One query, `row` of all heads. Calls claim(c, value, deviation) for dq. The errors of delta and of lse in the
// argument of exp are those of a whole row.
void reference_of_query(const AttentionShape& p, const Gradients& t, int64_t length, int64_t row, auto&& claim) {
  const int64_t head = row / p.Tq, query = row % p.Tq, kv = head / p.H * p.kv_heads() + head % p.H / p.group();
  const AttentionShape::Keys keys = p.seen(query, length);
  std::vector<Sum> dq(static_cast<size_t>(p.D));
  std::vector<double> of_row(static_cast<size_t>(p.D));
  for (int64_t j = keys.first; j < keys.last; ++j)
    reference_of_pair(p, t, head, kv, query, j, [&](Dot, Dot ds, double delta) {
      for (int64_t c = 0; c < p.D; ++c) {
        const double value = t.k.at(kv, j, c);
        dq[static_cast<size_t>(c)].add(ds.sum, ds.deviation, value);
        of_row[static_cast<size_t>(c)] += delta * value;
      }
    });
  for (int64_t c = 0; c < p.D; ++c) {
    const Sum& s = dq[static_cast<size_t>(c)];
    claim(c, s.sum(),
          s.deviation(p, keys.last - keys.first) + std::abs(of_row[static_cast<size_t>(c)]) +
              p.u_sum() * std::abs(t.lse[row] * s.sum()));
  }
}

// One key, `row` of all heads of k and v. Calls claim_k(c, value, deviation) and claim_v.
void reference_of_key(const AttentionShape& p, const Gradients& t, int64_t length, int64_t row, auto&& claim_k,
                      auto&& claim_v) {
  const int64_t j = row % p.Tk, kv = row / p.Tk, first = kv / p.kv_heads() * p.H + kv % p.kv_heads() * p.group();
  std::vector<Sum> dk(static_cast<size_t>(p.D)), dv(static_cast<size_t>(p.D));
  for (int64_t head = first; head < first + p.group(); ++head)
    for (int64_t i = 0; i < p.Tq; ++i) {
      const AttentionShape::Keys of_query = p.seen(i, length);
      if (j < of_query.first || j >= of_query.last) continue;
      reference_of_pair(p, t, head, kv, i, j, [&](Dot weight, Dot ds, double delta) {
        for (int64_t c = 0; c < p.D; ++c) {
          dk[static_cast<size_t>(c)].add(ds.sum, std::hypot(ds.deviation, delta), t.q.at(head, i, c));
          dv[static_cast<size_t>(c)].add(weight.sum, weight.deviation, t.dy.at(head, i, c));
        }
      });
    }
  for (int64_t c = 0; c < p.D; ++c) {
    const Sum &of_k = dk[static_cast<size_t>(c)], &of_v = dv[static_cast<size_t>(c)];
    claim_k(c, of_k.sum(), of_k.deviation(p, p.group() * p.Tq));
    claim_v(c, of_v.sum(), of_v.deviation(p, p.group() * p.Tq));
  }
}

}  // namespace

void Attention::reference(Inputs in, int64_t row, Expect& expect) const {
  reference_of_forward(
      *this, {in[q], rows().q}, {in[k], rows().k}, {in[v], rows().v}, length(*this, in, lengths, row / Tq / H), row,
      [&](double value, double deviation) { expect(lse, row, value, deviation); },
      [&](int64_t c, double value, double deviation) { expect(y, row * D + c, value, deviation); });
}
DUET_PROBLEM(Attention);

void AttentionPacked::reference(Inputs in, int64_t row, Expect& expect) const {
  reference_of_forward(
      unpacked(), {in[qkv], rows().q}, {in[qkv], rows().k}, {in[qkv], rows().v}, T, row,
      [&](double value, double deviation) { expect(lse, row, value, deviation); },
      [&](int64_t c, double value, double deviation) {
        expect(y, rows().y.at(row / T, row % T) + c, value, deviation);
      });
}
DUET_PROBLEM(AttentionPacked);

void AttentionBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const AttentionRows at = rows();
  const Gradients t{{in[q], at.q}, {in[k], at.k}, {in[v], at.v}, {in[y], at.y}, {in[dy], at.y}, in[lse]};
  if (slice < B * H * Tq)
    return reference_of_query(
        *this, t, length(*this, in, lengths, slice / Tq / H), slice,
        [&](int64_t c, double value, double deviation) { expect(dq, slice * D + c, value, deviation); });
  const int64_t key = slice - B * H * Tq;
  reference_of_key(
      *this, t, length(*this, in, lengths, key / Tk / kv_heads()), key,
      [&](int64_t c, double value, double deviation) { expect(dk, key * D + c, value, deviation); },
      [&](int64_t c, double value, double deviation) { expect(dv, key * D + c, value, deviation); });
}
DUET_PROBLEM(AttentionBackward);

void AttentionPackedBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const AttentionRows of = rows();
  const Gradients t{{in[qkv], of.q}, {in[qkv], of.k}, {in[qkv], of.v}, {in[y], of.y}, {in[dy], of.y}, in[lse]};
  const int64_t queries = B * H * T, row = slice % queries;
  const auto claim = [&](int64_t part) {
    return [&, at = rows_of_part(part).at(row / T, row % T)](int64_t c, double value, double deviation) {
      expect(dqkv, at + c, value, deviation);
    };
  };
  if (slice < queries)
    reference_of_query(unpacked(), t, T, row, claim(0));
  else
    reference_of_key(unpacked(), t, T, row, claim(1), claim(2));
}
DUET_PROBLEM(AttentionPackedBackward);

}  // namespace duet
