// SPDX-License-Identifier: Apache-2.0
// Reference for cross_entropy, its backward and both in one (cross_entropy_fused): serial, in double, the formulas of
// the contracts (ops/loss/cross_entropy.h, cross_entropy_fused.h) and nothing else. A slice is a row; where there is a
// loss, the last slice is the loss.
#include "ops/loss/cross_entropy.h"

#include "core/registry.h"
#include "ops/loss/cross_entropy_fused.h"

namespace duet {
namespace {

struct Term {
  double value, error;  // error: in units of u
};

// log sum_j exp(x[j]) of one row, from its maximum, as exp overflows otherwise.
Term log_sum_exp(Inputs::Values x, int64_t first, int64_t cols) {
  double max = -INFINITY;
  for (int64_t i = first; i < first + cols; ++i) max = std::max(max, x[i]);
  BoundedSum sum(kRun);
  for (int64_t i = first; i < first + cols; ++i) {
    const double power = std::exp(x[i] - max);
    const double roundings = 4 + std::abs(x[i] - max) + std::abs(x[i]) + std::abs(max) / 4;
    sum.add(power, power > 0 ? power * roundings : 0);
  }
  return {max + std::log(sum.sum()), sum.error() / sum.sum() + 8 + 4 * std::log(sum.sum())};
}

// q[c] of the contract: the label smoothed over all classes.
double target(double smooth, int64_t cols, bool labelled) {
  return (labelled ? 1 - smooth : 0) + smooth / static_cast<double>(cols);
}

// The mean over rows of lse - sum_c q[c] x[c].
Term mean_loss(Inputs::Values x, Inputs::Values label, int64_t rows, int64_t cols, double smooth) {
  BoundedSum sum(kRun);
  for (int64_t r = 0; r < rows; ++r) {
    const auto labelled = static_cast<int64_t>(label[r]);
    const Term row = log_sum_exp(x, r * cols, cols);
    BoundedSum targets(kRun);
    for (int64_t c = 0; c < cols; ++c) {
      const double q = target(smooth, cols, c == labelled);
      if (q != 0) targets.add(q * x[r * cols + c], 3 * std::abs(q * x[r * cols + c]));
    }
    const double value = row.value - targets.sum();
    sum.add(value, row.error + std::abs(row.value) + targets.error() + std::abs(targets.sum()) + std::abs(value));
  }
  const auto n = static_cast<double>(std::max<int64_t>(1, rows));
  return {sum.sum() / n, (sum.error() + std::abs(sum.sum())) / n + (rows > 0 ? 1 : 0)};
}

}  // namespace

void CrossEntropy::reference(Inputs in, int64_t slice, Expect& expect) const {
  if (slice < rows) {
    const Term row = log_sum_exp(in[x], slice * cols, cols);
    return expect(lse, slice, row.value, row.error);
  }

  const Term mean = mean_loss(in[x], in[label], rows, cols, smooth);
  expect(loss, 0, mean.value, mean.error);
}
DUET_PROBLEM(CrossEntropy);

void CrossEntropyBackward::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto labelled = static_cast<int64_t>(in[label][row]);
  const double by = (scaled ? in[scale][0] : 1) / static_cast<double>(rows);
  for (int64_t c = 0; c < cols; ++c) {
    const double q = target(smooth, cols, c == labelled), p = std::exp(in[x][row * cols + c] - in[lse][row]);
    expect(dx, row * cols + c, (p - q) * by, (p + q) * std::abs(by));
  }
}
DUET_PROBLEM(CrossEntropyBackward);

void CrossEntropyFused::reference(Inputs in, int64_t slice, Expect& expect) const {
  if (slice == rows) {
    const Term mean = mean_loss(in[x], in[label], rows, cols, smooth);
    return expect(loss, 0, mean.value, mean.error);
  }
  const int64_t row = slice;
  const auto labelled = static_cast<int64_t>(in[label][row]);
  const Term lse = log_sum_exp(in[x], row * cols, cols);
  const double lse_error = lse.error + std::abs(lse.value);
  const double by = (scaled ? in[scale][0] : 1) / static_cast<double>(rows);
  for (int64_t c = 0; c < cols; ++c) {
    const double distance = in[x][row * cols + c] - lse.value, p = std::exp(distance);
    const double q = target(smooth, cols, c == labelled);
    expect(dx, row * cols + c, (p - q) * by, (p * (4 + std::abs(distance) + lse_error) + 6 * (p + q)) * std::abs(by));
  }
}
DUET_PROBLEM(CrossEntropyFused);

}  // namespace duet
