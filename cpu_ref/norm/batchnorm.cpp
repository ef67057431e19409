// SPDX-License-Identifier: Apache-2.0
// The judge of batchnorm, its backward and inference: two passes in double. A slice is a channel.
#include "ops/norm/batchnorm.h"

#include "core/registry.h"

namespace duet {
namespace {
double activated(NormAct act, double v) { return act == NormAct::relu ? std::max(v, 0.0) : v; }
}  // namespace

void BatchNorm::reference(Inputs in, int64_t q, Expect& expect) const {
  const auto total = static_cast<double>(std::max<int64_t>(1, count()));
  double sum = 0, size = 0, squares = 0;
  for (int64_t k = 0; k < count(); ++k) {
    sum += in[x][at(q, k)];
    size += std::abs(in[x][at(q, k)]);
  }
  const double m = sum / total;
  for (int64_t k = 0; k < count(); ++k) squares += (in[x][at(q, k)] - m) * (in[x][at(q, k)] - m);
  const double variance = squares / total, scale = 1 / std::sqrt(variance + eps);
  const double shared = size / total * scale;  // A of the contract
  expect(mean, q, m, size / total);
  expect(rstd, q, scale, scale * (1 + shared));

  const double old_mean = (1 - momentum) * in[running_mean][q], old_var = (1 - momentum) * in[running_var][q];
  expect(running_mean, q, old_mean + momentum * m, std::abs(old_mean) + momentum * size / total);
  expect(running_var, q, old_var + momentum * variance * unbiased(),
         std::abs(old_var) + momentum * unbiased() * (1 + shared) / (scale * scale));

  const double g = in[gamma][q], b = in[beta][q];
  for (int64_t k = 0; k < count(); ++k) {
    const double xhat = (in[x][at(q, k)] - m) * scale, more = residual ? in[added][at(q, k)] : 0;
    expect(y, at(q, k), activated(act, xhat * g + b + more),
           std::abs(g) * (shared + std::abs(xhat) * (1 + shared)) + std::abs(b) + std::abs(more));
  }
}
DUET_PROBLEM(BatchNorm);

void BatchNormBackward::reference(Inputs in, int64_t q, Expect& expect) const {
  const auto total = static_cast<double>(std::max<int64_t>(1, count()));
  const double m = in[mean][q], scale = in[rstd][q];
  const auto passed = [&](int64_t i) { return !relu() || in[y][i] > 0 ? in[dy][i] : 0; };
  const auto xhat = [&](int64_t i) { return (in[x][i] - m) * scale; };
  const auto size = [&](int64_t i) { return (std::abs(in[x][i]) + std::abs(m)) * std::abs(scale); };
  double sum = 0, sum_size = 0, dot = 0, dot_size = 0;
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    sum += passed(i);
    sum_size += std::abs(passed(i));
    dot += passed(i) * xhat(i);
    dot_size += std::abs(passed(i)) * size(i);
  }
  expect(dbeta, q, sum, sum_size);
  expect(dgamma, q, dot, dot_size);
  const double factor = in[gamma][q] * scale;
  for (int64_t k = 0; k < count(); ++k) {
    const int64_t i = at(q, k);
    expect(dx, i, factor * (passed(i) - sum / total - xhat(i) * dot / total),
           std::abs(factor) * (std::abs(passed(i)) + sum_size / total + size(i) * dot_size / total));
    if (residual) expect(dadded, i, passed(i));
  }
}
DUET_PROBLEM(BatchNormBackward);

void BatchNormInference::reference(Inputs in, int64_t q, Expect& expect) const {
  const double scale = in[gamma][q] / std::sqrt(in[var][q] + eps), m = in[mean][q], b = in[beta][q];
  for (int64_t k = 0; k < count(); ++k) {
    const double value = in[x][at(q, k)], more = residual ? in[added][at(q, k)] : 0;
    expect(y, at(q, k), activated(act, (value - m) * scale + b + more),
           (std::abs(value) + std::abs(m)) * std::abs(scale) + std::abs(b) + std::abs(more));
  }
}
DUET_PROBLEM(BatchNormInference);

}  // namespace duet
