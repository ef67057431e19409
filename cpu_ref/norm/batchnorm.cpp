// SPDX-License-Identifier: Apache-2.0
// Reference for batchnorm, its backward and its inference: serial, in double, the formulas of the contract
// (ops/norm/batchnorm.h) and nothing else. The variance takes a second pass, over deviations from the mean. A slice is
// a channel.
#include "ops/norm/batchnorm.h"

#include "core/registry.h"

namespace duet {
namespace {
double activated(NormAct act, double v) { return act == NormAct::relu ? std::max(v, 0.0) : v; }
}  // namespace

void BatchNorm::reference(Inputs in, int64_t q, Expect& expect) const {
  const auto total = static_cast<double>(std::max<int64_t>(1, count()));

  // Mean, then the variance from deviations.
  double sum = 0, abs_sum = 0, squares = 0;
  for (int64_t k = 0; k < count(); ++k) {
    sum += in[x][at(q, k)];
    abs_sum += std::abs(in[x][at(q, k)]);
  }
  const double m = sum / total;
  for (int64_t k = 0; k < count(); ++k) squares += (in[x][at(q, k)] - m) * (in[x][at(q, k)] - m);
  const double variance = squares / total, scale = 1 / std::sqrt(variance + eps);
  const double shared = abs_sum / total * scale;  // A of the contract
  expect(mean, q, m, abs_sum / total);
  expect(rstd, q, scale, scale * (1 + shared));

  // Running statistics.
  const double old_mean = (1 - momentum) * in[running_mean][q], old_var = (1 - momentum) * in[running_var][q];
  expect(running_mean, q, old_mean + momentum * m, std::abs(old_mean) + momentum * abs_sum / total);
  expect(running_var, q, old_var + momentum * variance * unbiased(),
         std::abs(old_var) + momentum * unbiased() * (1 + shared) / (scale * scale));

  // Normalise, scale, shift.
  const double g = in[gamma][q], b = in[beta][q];
  for (int64_t k = 0; k < count(); ++k) {
    const double xhat = (in[x][at(q, k)] - m) * scale, added_value = residual ? in[added][at(q, k)] : 0;
    expect(y, at(q, k), activated(act, xhat * g + b + added_value),
           std::abs(g) * (shared + std::abs(xhat) * (1 + shared)) + std::abs(b) + std::abs(added_value));
  }
}
DUET_PROBLEM(BatchNorm);

void BatchNormBackward::reference(Inputs in, int64_t q, Expect& expect) const {
  const auto total = static_cast<double>(std::max<int64_t>(1, count()));
  const double m = in[mean][q], scale = in[rstd][q];
  const auto passed = [&](int64_t i) { return !relu() || in[y][i] > 0 ? in[dy][i] : 0; };
  const auto xhat = [&](int64_t i) { return (in[x][i] - m) * scale; };
  // The terms of xhat before they cancel: |x| + |mean|, scaled.
  const auto xhat_abs_sum = [&](int64_t i) { return (std::abs(in[x][i]) + std::abs(m)) * std::abs(scale); };

  // Sums over the channel: dbeta and dgamma.
  double sum = 0, sum_abs_sum = 0, dot = 0, dot_abs_sum = 0;
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    sum += passed(i);
    sum_abs_sum += std::abs(passed(i));
    dot += passed(i) * xhat(i);
    dot_abs_sum += std::abs(passed(i)) * xhat_abs_sum(i);
  }
  expect(dbeta, q, sum, sum_abs_sum);
  expect(dgamma, q, dot, dot_abs_sum);

  // dx, from both sums.
  const double factor = in[gamma][q] * scale;
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    expect(dx, i, factor * (passed(i) - sum / total - xhat(i) * dot / total),
           std::abs(factor) * (std::abs(passed(i)) + sum_abs_sum / total + xhat_abs_sum(i) * dot_abs_sum / total));
    if (residual) expect(dadded, i, passed(i));
  }
}
DUET_PROBLEM(BatchNormBackward);

void BatchNormInference::reference(Inputs in, int64_t q, Expect& expect) const {
  const double scale = in[gamma][q] / std::sqrt(in[var][q] + eps), m = in[mean][q], b = in[beta][q];
  for (int64_t k = 0; k < count(); ++k) {
    const double value = in[x][at(q, k)], added_value = residual ? in[added][at(q, k)] : 0;
    expect(y, at(q, k), activated(act, (value - m) * scale + b + added_value),
           (std::abs(value) + std::abs(m)) * std::abs(scale) + std::abs(b) + std::abs(added_value));
  }
}
DUET_PROBLEM(BatchNormInference);

}  // namespace duet
