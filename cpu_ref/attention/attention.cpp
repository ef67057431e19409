// SPDX-License-Identifier: Apache-2.0
// Reference for attention and its backward: serial, in double, the formulas of the contract (ops/attention/attention.h)
// and nothing else. A slice is a query; backward, the slices after those of the queries are keys. The abs_sum of each
// claim is the deviation that is derived at AttentionShape::tolerance_of_deviation.
#include "ops/attention/attention.h"

#include "core/registry.h"

namespace duet {
namespace {

double square(double v) { return v * v; }

// A dot product, and the standard deviation of its error.
struct Dot {
  double sum = 0, deviation = 0;
};
Dot dot(const AttentionShape& p, Inputs::Values a, int64_t at_a, Inputs::Values b, int64_t at_b) {
  TermSum d;
  for (int64_t i = 0; i < p.D; ++i) d.add(a[at_a + i] * b[at_b + i]);
  return {d.sum(), p.deviation_of_sum(static_cast<double>(p.D), d.sum(), d.root_sum())};
}

// A score, and the deviation of exp(score - level), relative, before it is rounded to dtype.
struct Score {
  double s, deviation;
};
Score score_of(const AttentionShape& p, const Dot& dot, double level) {
  const double s = p.factor() * dot.sum;
  return {s, std::sqrt(square(p.factor() * dot.deviation) + square(p.deviation_half() * s) +
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

}  // namespace

void Attention::reference(Inputs in, int64_t row, Expect& expect) const {
  const int64_t head = row / Tq, kv = head / H * kv_heads() + head % H / group();
  const Keys seen_keys = seen(row % Tq, length(*this, in, lengths, head / H));
  const int64_t keys = seen_keys.last - seen_keys.first, at = kv * Tk + seen_keys.first;  // at: the first that is seen

  // Scores, their maximum and the sum of exponentials.
  std::vector<Dot> product(static_cast<size_t>(keys));
  double max = -INFINITY;
  for (int64_t j = 0; j < keys; ++j) {
    Dot& d = product[static_cast<size_t>(j)] = dot(*this, in[q], row * D, in[k], (at + j) * D);
    max = std::max(max, factor() * d.sum);
  }
  std::vector<Score> score;
  TermSum sum;
  for (const Dot& d : product) {
    score.push_back(score_of(*this, d, max));
    sum.add(std::exp(score.back().s - max));
  }
  // The logarithm moves by the mean of the scores' errors, and by the relative error of the sum.
  double square_of_mean = 0;
  for (const Score& s : score) square_of_mean += square(std::exp(s.s - max) / sum.sum() * s.deviation);
  expect(lse, row, max + std::log(sum.sum()),
         std::sqrt(square_of_mean) + deviation_of_sum(static_cast<double>(keys), 1, sum.root_sum() / sum.sum()) +
             u_sum() * (1 + std::abs(max)));

  // The weighted sum of the rows of v. An error of p also moves the sum by which it is divided: by y instead of v.
  std::vector<Sum> out(static_cast<size_t>(D));
  for (int64_t j = 0; j < keys; ++j) {
    const Score& s = score[static_cast<size_t>(j)];
    const double p = std::exp(s.s - max) / sum.sum(), deviation = p * std::hypot(s.deviation, deviation_half());
    for (int64_t c = 0; c < D; ++c) out[static_cast<size_t>(c)].add(p, deviation, in[v][(at + j) * D + c]);
  }
  for (int64_t c = 0; c < D; ++c) {
    const Sum& o = out[static_cast<size_t>(c)];
    expect(y, row * D + c, o.sum(),
           o.deviation(*this, keys) + std::abs(o.sum()) * (std::sqrt(square_of_mean) + deviation_half()));
  }
}
DUET_PROBLEM(Attention);

void AttentionBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  std::vector<Sum> first(static_cast<size_t>(D)), second(static_cast<size_t>(D));
  // Calls use(p, ds, delta) for query row i and key row j of q and k: the probability and the gradient of the score
  // with their deviations, and what the error of delta does to ds.
  const auto pair = [&](int64_t i, int64_t j, auto&& use) {
    const Dot dp = dot(*this, in[dy], i * D, in[v], j * D), delta = dot(*this, in[dy], i * D, in[y], i * D);
    const double level = in[lse][i];
    const Score s = score_of(*this, dot(*this, in[q], i * D, in[k], j * D), level);
    const double p = std::exp(s.s - level), slope = factor() * p, ds = slope * (dp.sum - delta.sum);
    const double of_scores = std::hypot(s.deviation, deviation_half());  // or rounding p, or ds
    use(Dot{p, p * of_scores},
        Dot{ds, std::hypot(ds * of_scores, slope * std::hypot(dp.deviation, deviation_half() * dp.sum))},
        slope * delta.deviation);
  };

  // A query: dq. The errors of delta and of lse in the argument of exp are those of a whole row.
  if (slice < B * H * Tq) {
    const int64_t head = slice / Tq, kv = head / H * kv_heads() + head % H / group();
    const Keys keys = seen(slice % Tq, length(*this, in, lengths, head / H));
    std::vector<double> of_row(static_cast<size_t>(D));
    for (int64_t j = keys.first; j < keys.last; ++j)
      pair(slice, kv * Tk + j, [&](Dot, Dot ds, double delta) {
        for (int64_t c = 0; c < D; ++c) {
          const double value = in[k][(kv * Tk + j) * D + c];
          first[static_cast<size_t>(c)].add(ds.sum, ds.deviation, value);
          of_row[static_cast<size_t>(c)] += delta * value;
        }
      });
    for (int64_t c = 0; c < D; ++c) {
      const Sum& s = first[static_cast<size_t>(c)];
      expect(dq, slice * D + c, s.sum(),
             s.deviation(*this, keys.last - keys.first) + std::abs(of_row[static_cast<size_t>(c)]) +
                 u_sum() * std::abs(in[lse][slice] * s.sum()));
    }
    return;
  }

  // A key: dk and dv.
  const int64_t key = slice - B * H * Tq, j = key % Tk, kv = key / Tk;
  const int64_t head0 = kv / kv_heads() * H + kv % kv_heads() * group();
  const int64_t keys = length(*this, in, lengths, kv / kv_heads());
  for (int64_t head = head0; head < head0 + group(); ++head)
    for (int64_t i = 0; i < Tq; ++i) {
      const Keys of_query = seen(i, keys);
      if (j < of_query.first || j >= of_query.last) continue;
      pair(head * Tq + i, key, [&](Dot p, Dot ds, double delta) {
        for (int64_t c = 0; c < D; ++c) {
          const int64_t at = (head * Tq + i) * D + c;
          first[static_cast<size_t>(c)].add(ds.sum, std::hypot(ds.deviation, delta), in[q][at]);
          second[static_cast<size_t>(c)].add(p.sum, p.deviation, in[dy][at]);
        }
      });
    }
  for (int64_t c = 0; c < D; ++c) {
    const Sum &of_k = first[static_cast<size_t>(c)], &of_v = second[static_cast<size_t>(c)];
    expect(dk, key * D + c, of_k.sum(), of_k.deviation(*this, group() * Tq));
    expect(dv, key * D + c, of_v.sum(), of_v.deviation(*this, group() * Tq));
  }
}
DUET_PROBLEM(AttentionBackward);

}  // namespace duet
