// SPDX-License-Identifier: Apache-2.0
// The reference of mf_step moves factors and biases against the slope of its objective, found by finite differences.
#include "ops/gemm/mf_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/session.h"

namespace duet {
namespace {

constexpr int kUsers = 5, kItems = 4, kFactors = 3, kRatings = 30;

struct Model {
  std::vector<double> p, q, bu, bi;
};

// sum_j (e[j]^2 + reg (|p[u]|^2 + |q[i]|^2 + bu[u]^2 + bi[i]^2)) / 2
double objective(const MfStep& step, const HostTensors& in, const Model& m) {
  const auto* user = static_cast<const int32_t*>(in.data(MfStep::user.index));
  const auto* item = static_cast<const int32_t*>(in.data(MfStep::item.index));
  const auto* rating = static_cast<const float*>(in.data(MfStep::rating.index));
  double sum = 0;
  for (int j = 0; j < kRatings; ++j) {
    const auto u = static_cast<size_t>(user[j]), i = static_cast<size_t>(item[j]);
    double e = rating[j] - step.mu - m.bu[u] - m.bi[i], squares = m.bu[u] * m.bu[u] + m.bi[i] * m.bi[i];
    for (size_t c = 0; c < kFactors; ++c) {
      const double p = m.p[u * kFactors + c], q = m.q[i * kFactors + c];
      e -= p * q;
      squares += p * p + q * q;
    }
    sum += (e * e + step.reg * squares) / 2;
  }
  return sum;
}

TEST(MfStepReference, MovesAgainstTheSlope) {
  const MfStep step{.users = kUsers, .items = kItems, .f = kFactors, .n = kRatings, .reg = 0.3};
  const Problem problem = parse_case("mf_step", "users:5 items:4 f:3 n:30 reg:0.3");
  const HostTensors in = draw_inputs(problem, FillMode::values, 1), out = run_reference(problem, in);
  const double lr = *static_cast<const float*>(in.data(MfStep::lr.index));
  Model m;
  const std::pair<Slot, std::vector<double>*> parts[]{
      {MfStep::p, &m.p}, {MfStep::q, &m.q}, {MfStep::bu, &m.bu}, {MfStep::bi, &m.bi}};
  for (const auto& [slot, values] : parts) {
    const auto* from = static_cast<const float*>(in.data(slot.index));
    values->assign(from, from + in.specs()[slot.index].elements());
  }
  constexpr double kStep = 1e-4;
  for (const auto& [slot, values] : parts)
    for (size_t k = 0; k < values->size(); ++k) {
      const double at = (*values)[k];
      (*values)[k] = at + kStep;
      const double above = objective(step, in, m);
      (*values)[k] = at - kStep;
      const double below = objective(step, in, m);
      (*values)[k] = at;
      const double want = at - lr * (above - below) / (2 * kStep);
      EXPECT_NEAR(static_cast<const float*>(out.data(slot.index))[k], want, 1e-7)
          << in.specs()[slot.index].name << "[" << k << "]";
    }
}

}  // namespace
}  // namespace duet
