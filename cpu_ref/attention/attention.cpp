// SPDX-License-Identifier: Apache-2.0
// Reference for attention and its backward: serial, in double, the formulas of the contract (ops/attention/attention.h)
// and nothing else. A slice is a query; backward, the slices after those of the queries are keys. What each claim's
// abs_sum adds for the rounding of the scores is derived at AttentionShape::tolerance_of_sums.
#include "ops/attention/attention.h"

#include "core/registry.h"

namespace duet {
namespace {

// A dot product, or a sum, and the sum of its absolute terms.
struct Dot {
  double sum = 0, abs_sum = 0;
};
Dot dot(Inputs::Values a, int64_t at_a, Inputs::Values b, int64_t at_b, int64_t n) {
  Dot d;
  for (int64_t i = 0; i < n; ++i) {
    const double term = a[at_a + i] * b[at_b + i];
    d.sum += term;
    d.abs_sum += std::abs(term);
  }
  return d;
}

}  // namespace

void Attention::reference(Inputs in, int64_t row, Expect& expect) const {
  const int64_t head = row / Tq, kv = head / H * kv_heads() + head % H / group(), keys = visible(row % Tq);

  // Scores, their maximum and the sum of exponentials.
  std::vector<Dot> score(static_cast<size_t>(keys));
  double max = -INFINITY, sum = 0, spread = 0;
  for (int64_t j = 0; j < keys; ++j) {
    Dot& s = score[static_cast<size_t>(j)] = dot(in[q], row * D, in[k], (kv * Tk + j) * D, D);
    s.sum *= factor();
    s.abs_sum *= std::abs(factor());
    max = std::max(max, s.sum);
  }
  for (const Dot& s : score) sum += std::exp(s.sum - max);
  // spread: the average over keys, weighted by probability, of how far rounding may carry a score.
  for (const Dot& s : score) spread += std::exp(s.sum - max) / sum * (s.abs_sum + max - s.sum);
  expect(lse, row, max + std::log(sum), 1 + spread + std::abs(max));

  // The weighted sum of the rows of v. error_scale: what rounding of p adds to the roundings of the sum itself.
  std::vector<Dot> out(static_cast<size_t>(D));
  for (int64_t j = 0; j < keys; ++j) {
    const Dot& s = score[static_cast<size_t>(j)];
    const double p = std::exp(s.sum - max) / sum, error_scale = 1 + spread + s.abs_sum + max - s.sum;
    for (int64_t c = 0; c < D; ++c) {
      const double term = p * in[v][(kv * Tk + j) * D + c];
      out[static_cast<size_t>(c)].sum += term;
      out[static_cast<size_t>(c)].abs_sum += std::abs(term) * error_scale;
    }
  }
  for (int64_t c = 0; c < D; ++c)
    expect(y, row * D + c, out[static_cast<size_t>(c)].sum, out[static_cast<size_t>(c)].abs_sum);
}
DUET_PROBLEM(Attention);

void AttentionBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  std::vector<Dot> first(static_cast<size_t>(D)), second(static_cast<size_t>(D));
  const auto add = [](Dot& to, double factor, double factor_abs_sum, double value) {
    to.sum += factor * value;
    to.abs_sum += factor_abs_sum * std::abs(value);
  };
  // Calls use(p, ds) for query row i and key row j of q and k: the probability and the gradient of the score, each with
  // its abs_sum, which says how far rounding may carry it.
  const auto pair = [&](int64_t i, int64_t j, auto&& use) {
    const Dot s = dot(in[q], i * D, in[k], j * D, D), dp = dot(in[dy], i * D, in[v], j * D, D),
              delta = dot(in[dy], i * D, in[y], i * D, D);
    const double level = in[lse][i], p = std::exp(factor() * s.sum - level);
    const double p_abs_sum =
        p * (1 + std::abs(factor()) * s.abs_sum + std::abs(factor() * s.sum - level) + std::abs(level));
    use(Dot{p, p_abs_sum},
        Dot{factor() * p * (dp.sum - delta.sum), std::abs(factor()) * p_abs_sum * (dp.abs_sum + delta.abs_sum)});
  };

  // A query: dq.
  if (slice < B * H * Tq) {
    const int64_t head = slice / Tq, kv = head / H * kv_heads() + head % H / group();
    for (int64_t j = 0; j < visible(slice % Tq); ++j)
      pair(slice, kv * Tk + j, [&](Dot, Dot ds) {
        for (int64_t c = 0; c < D; ++c)
          add(first[static_cast<size_t>(c)], ds.sum, ds.abs_sum, in[k][(kv * Tk + j) * D + c]);
      });
    for (int64_t c = 0; c < D; ++c)
      expect(dq, slice * D + c, first[static_cast<size_t>(c)].sum, first[static_cast<size_t>(c)].abs_sum);
    return;
  }

  // A key: dk and dv.
  const int64_t key = slice - B * H * Tq, j = key % Tk, kv = key / Tk;
  const int64_t head0 = kv / kv_heads() * H + kv % kv_heads() * group();
  for (int64_t head = head0; head < head0 + group(); ++head)
    for (int64_t i = causal ? j : 0; i < Tq; ++i)
      pair(head * Tq + i, key, [&](Dot p, Dot ds) {
        for (int64_t c = 0; c < D; ++c) {
          const int64_t at = (head * Tq + i) * D + c;
          add(first[static_cast<size_t>(c)], ds.sum, ds.abs_sum, in[q][at]);
          add(second[static_cast<size_t>(c)], p.sum, p.abs_sum, in[dy][at]);
        }
      });
  for (int64_t c = 0; c < D; ++c) {
    expect(dk, key * D + c, first[static_cast<size_t>(c)].sum, first[static_cast<size_t>(c)].abs_sum);
    expect(dv, key * D + c, second[static_cast<size_t>(c)].sum, second[static_cast<size_t>(c)].abs_sum);
  }
}
DUET_PROBLEM(AttentionBackward);

}  // namespace duet
