// SPDX-License-Identifier: Apache-2.0
// Reference for mf_step: serial, in double, the formula of the contract (ops/gemm/mf_step.h) and nothing else. A slice
// is kRowsOfSlice users, as many items, or the loss.
#include "ops/gemm/mf_step.h"

#include "core/registry.h"

namespace duet {
namespace {

// Of rating j: its user and item, and e with its error in units of u. user is -1 where it does not count.
struct Rating {
  int64_t user, item;
  double e = 0, error = 0;
};
Rating rating_of(const MfStep& s, Inputs in, int64_t j) {
  using P = MfStep;
  Rating r{static_cast<int64_t>(in[P::user][j]), static_cast<int64_t>(in[P::item][j])};
  if (r.user < 0 || r.user >= s.users || r.item < 0 || r.item >= s.items) return {-1, -1};
  BoundedSum sum;
  for (const double term : {in[P::rating][j], -s.mu, -in[P::bu][r.user], -in[P::bi][r.item]}) sum.add(term);
  for (int64_t c = 0; c < s.f; ++c) {
    const double term = -in[P::p][r.user * s.f + c] * in[P::q][r.item * s.f + c];
    sum.add(term, std::abs(term));
  }
  r.e = sum.sum();
  r.error = sum.error() + std::abs(s.mu);  // mu is rounded to f32
  return r;
}

}  // namespace

void MfStep::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t of_users = ceil_div(users, kRowsOfSlice), of_items = ceil_div(items, kRowsOfSlice);
  if (slice == of_users + of_items) {
    BoundedSum sum(kRun);
    for (int64_t j = 0; j < n; ++j) {
      const Rating r = rating_of(*this, in, j);
      sum.add(r.e * r.e, r.e * r.e + 2 * std::abs(r.e) * r.error);
    }
    const auto count = static_cast<double>(std::max<int64_t>(1, n));
    return expect(loss, 0, sum.sum() / count, sum.error() / count);
  }
  // Rows [first, last) of the users, whose gradients have the items' factors, or the other way round.
  const bool of_user = slice < of_users;
  const int64_t first = (of_user ? slice : slice - of_users) * kRowsOfSlice;
  const int64_t last = std::min(first + kRowsOfSlice, of_user ? users : items);
  const Slot rows = of_user ? p : q, others = of_user ? q : p, biases = of_user ? bu : bi;
  const double rate = in[lr][0];
  const auto old = [&](int64_t row, int64_t c) { return c < f ? in[rows][row * f + c] : in[biases][row]; };
  struct Row {
    std::vector<BoundedSum> sum;  // the last: the bias
    int64_t count = 0;
  };
  std::vector<Row> all(static_cast<size_t>(last - first), {std::vector<BoundedSum>(static_cast<size_t>(f + 1))});
  for (int64_t row = first; row < last; ++row)
    for (int64_t c = 0; c <= f; ++c) all[static_cast<size_t>(row - first)].sum[static_cast<size_t>(c)].add(old(row, c));
  for (int64_t j = 0; j < n; ++j) {
    const auto mine = static_cast<int64_t>(in[of_user ? user : item][j]);
    if (mine < first || mine >= last) continue;
    const Rating r = rating_of(*this, in, j);
    if (r.user < 0) continue;
    Row& row = all[static_cast<size_t>(mine - first)];
    ++row.count;
    const int64_t other = of_user ? r.item : r.user;
    for (int64_t c = 0; c <= f; ++c) {
      const double factor = rate * (c < f ? in[others][other * f + c] : 1);
      row.sum[static_cast<size_t>(c)].add(factor * r.e, 3 * std::abs(factor * r.e) + std::abs(factor) * r.error);
    }
  }
  for (int64_t mine = first; mine < last; ++mine) {
    Row& row = all[static_cast<size_t>(mine - first)];
    for (int64_t c = 0; c <= f; ++c) {
      BoundedSum& s = row.sum[static_cast<size_t>(c)];
      if (row.count > 0) {  // a row without ratings does not move, even where its decay would be 0 * infinity
        const double decay = -rate * reg * static_cast<double>(row.count) * old(mine, c);
        s.add(decay, 4 * std::abs(decay));
      }
      expect(c < f ? rows : biases, c < f ? mine * f + c : mine, s.sum(), s.error());
    }
  }
}
DUET_PROBLEM(MfStep);

}  // namespace duet
