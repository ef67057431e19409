// SPDX-License-Identifier: Apache-2.0
// mf_step in two passes over the batch. First threads share the ratings and compute their errors. Then each task takes
// a range of users, or of items, reads the whole list for those in its range and adds their gradients to their rows, in
// the order of the list: no two tasks write to one row, and the result does not depend on the number of threads. Copies
// of p and q as they were before the step, which are small, serve both passes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/mf_step_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "core/simd-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/gemm/mf_step.h"
#include "cpu_ref/mean.h"
#include "ops/gemm/mf_step.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// e of the ratings of blocks [first, last), and the sums of their squares.
void mf_errors(const MfStep& s, const MfBatch& b, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mu = static_cast<float>(s.mu);
  for (int64_t block = first; block < last; ++block) {
    double squares = 0;
    for (int64_t j = block * kMeanBlock, end = std::min(s.n, j + kMeanBlock); j < end; ++j) {
      b.e[j] = 0;
      if (!b.exists(s, j)) continue;
      const float *p = b.old_p + b.user[j] * s.f, *q = b.old_q + b.item[j] * s.f;
      auto sum = hn::Zero(d);
      for (int64_t c = 0; c < s.f; c += lanes)
        sum = hn::MulAdd(load(d, p + c, s.f - c, 0.0f), load(d, q + c, s.f - c, 0.0f), sum);
      const float known = mu + b.old_bu[b.user[j]] + b.old_bi[b.item[j]];
      const float e = b.rating[j] - known - hn::GetLane(hn::SumOfLanes(d, sum));
      b.e[j] = e;
      squares += double{e} * e;
    }
    b.squares[block] = squares;
  }
}

// Adds the gradients of users or items [first, last) to their rows.
void mf_rows(const MfStep& s, const MfBatch& b, const MfSide& side, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill(side.count + first, side.count + last, 0);
  for (int64_t j = 0; j < s.n; ++j) {
    const int64_t mine = side.mine[j];
    if (mine < first || mine >= last || !b.exists(s, j)) continue;
    const float step = b.lr * b.e[j];
    const auto factor = hn::Set(d, step);
    const float* other = side.others + side.other[j] * s.f;
    float* row = side.rows + mine * s.f;
    for (int64_t c = 0; c < s.f; c += lanes)
      store(d, hn::MulAdd(factor, load(d, other + c, s.f - c, 0.0f), load(d, row + c, s.f - c, 0.0f)), row + c,
            s.f - c);
    side.bias[mine] += step;
    ++side.count[mine];
  }
  // Regularisation, of the old values.
  for (int64_t i = first; i < last; ++i) {
    if (side.count[i] == 0) continue;
    const float decay = b.lr * static_cast<float>(s.reg) * static_cast<float>(side.count[i]);
    for (int64_t c = i * s.f; c < (i + 1) * s.f; ++c) side.rows[c] -= decay * side.old_rows[c];
    side.bias[i] -= decay * side.old_bias[i];
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(mf_errors);
HWY_EXPORT(mf_rows);

Plan mf_step_tuned(const MfStep& s, CpuContext& cpu) {
  using P = MfStep;
  if (s.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  WorkspaceLayout workspace;
  const auto old_p = workspace.add<float>(s.users * s.f), old_q = workspace.add<float>(s.items * s.f);
  const auto old_bu = workspace.add<float>(s.users), old_bi = workspace.add<float>(s.items);
  const auto errors = workspace.add<float>(s.n);
  const auto squares = workspace.add<double>(mean_blocks(s.n));
  const auto user_count = workspace.add<int32_t>(s.users), item_count = workspace.add<int32_t>(s.items);
  auto run = [=, &cpu](Args t) {
    float *p = t[P::p].as<float>(), *q = t[P::q].as<float>(), *bu = t[P::bu].as<float>(), *bi = t[P::bi].as<float>();
    MfBatch b{.user = t[P::user].as<const int32_t>(),
              .item = t[P::item].as<const int32_t>(),
              .rating = t[P::rating].as<const float>(),
              .lr = *t[P::lr].as<const float>(),
              .old_p = t.workspace(old_p),
              .old_q = t.workspace(old_q),
              .old_bu = t.workspace(old_bu),
              .old_bi = t.workspace(old_bi),
              .e = t.workspace(errors),
              .squares = t.workspace(squares)};
    // Copies of the old values.
    const auto keep = [&](const float* from, float* to, int64_t n) {
      parallel_chunks(cpu, n, [&](int64_t first, int64_t last) { std::copy(from + first, from + last, to + first); });
    };
    keep(p, b.old_p, s.users * s.f);
    keep(q, b.old_q, s.items * s.f);
    keep(bu, b.old_bu, s.users);
    keep(bi, b.old_bi, s.items);
    // Errors and loss.
    cpu.parallel_for(mean_blocks(s.n), 1, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(mf_errors)(s, b, first, last);
    });
    *t[P::loss].as<float>() = mean_of(b.squares, s.n);
    // Rows of users, then of items: as many ranges of each as threads.
    const MfSide of_users{b.user, b.item, b.old_q, b.old_p, b.old_bu, p, bu, t.workspace(user_count)};
    const MfSide of_items{b.item, b.user, b.old_p, b.old_q, b.old_bi, q, bi, t.workspace(item_count)};
    const int64_t ranges = s.n * (s.f + 1) < kChunkElements ? 1 : cpu.threads();
    cpu.parallel_for(2 * ranges, 2 * (ranges == 1), [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const bool users = task < ranges;
        const int64_t rows = users ? s.users : s.items, range = task % ranges;
        HWY_DYNAMIC_DISPATCH(mf_rows)
        (s, b, users ? of_users : of_items, rows * range / ranges, rows * (range + 1) / ranges);
      }
    });
  };
  return Plan(std::move(run)).with(std::move(workspace));
}
DUET_REGISTER(mf_step_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
