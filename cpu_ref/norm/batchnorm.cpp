// SPDX-License-Identifier: Apache-2.0
// Reference for batchnorm, its backward and its inference: serial, in double, the formulas of the contract
// (ops/norm/batchnorm.h) and nothing else. The variance takes a second pass, over deviations from the mean. A slice is
// a channel.
#include "ops/norm/batchnorm.h"

#include "core/registry.h"
#include "cpu_ref/norm/moments.h"

namespace duet {
namespace {
double activated(NormAct act, double v) { return act == NormAct::relu ? std::max(v, 0.0) : v; }
}  // namespace

void BatchNorm::reference(Inputs in, int64_t q, Expect& expect) const {
  // Mean, then the variance from deviations.
  const ReferenceMoments m = reference_moments(count(), eps, [&](int64_t k) { return in[x][at(q, k)]; });
  expect(mean, q, m.mean, m.mean_error);
  expect(rstd, q, m.rstd, m.rstd_error);

  // Running statistics.
  const double old_mean = (1 - momentum) * in[running_mean][q], old_var = (1 - momentum) * in[running_var][q];
  const double new_var = momentum * unbiased();  // times the variance
  expect(running_mean, q, old_mean + momentum * m.mean,
         3 * std::abs(old_mean) + momentum * (m.mean_error + 2 * std::abs(m.mean)));
  expect(running_var, q, old_var + new_var * m.variance,
         3 * std::abs(old_var) + new_var * (m.variance_error + 4 * m.variance));

  // Normalise, scale, shift.
  const double g = in[gamma][q], b = in[beta][q];
  for (int64_t k = 0; k < count(); ++k) {
    const double value = in[x][at(q, k)], added_value = residual ? in[added][at(q, k)] : 0;
    const double normalised = (value - m.mean) * m.rstd * g + b;
    expect(y, at(q, k), activated(act, normalised + added_value),
           normalised_error(m, value, g, b) + (residual ? std::abs(normalised) : 0));
  }
}
DUET_PROBLEM(BatchNorm);

void BatchNormBackward::reference(Inputs in, int64_t q, Expect& expect) const {
  const auto total = static_cast<double>(std::max<int64_t>(1, count()));
  const double m = in[mean][q], scale = in[rstd][q];
  const auto passed = [&](int64_t i) { return !relu() || in[y][i] > 0 ? in[dy][i] : 0; };
  const auto xhat = [&](int64_t i) { return (in[x][i] - m) * scale; };
  // H of the contract: the terms of xhat before they cancel.
  const auto xhat_abs_sum = [&](int64_t i) { return (std::abs(in[x][i]) + std::abs(m)) * std::abs(scale); };

  // Sums over the channel: dbeta and dgamma.
  BoundedSum sum(kRun), dot(kRun);
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    sum.add(passed(i));
    dot.add(passed(i) * xhat(i), 3 * std::abs(passed(i)) * xhat_abs_sum(i));
  }
  expect(dbeta, q, sum.sum(), sum.error());
  expect(dgamma, q, dot.sum(), dot.error());

  // dx, from both sums.
  const double factor = in[gamma][q] * scale, sums_error = sum.error() + 6 * std::abs(sum.sum());
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    const double of_dot = std::abs(xhat(i)) * dot.error() + 8 * xhat_abs_sum(i) * std::abs(dot.sum());
    expect(dx, i, factor * (passed(i) - sum.sum() / total - xhat(i) * dot.sum() / total),
           std::abs(factor) * (4 * std::abs(passed(i)) + (sums_error + of_dot) / total));
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
