// SPDX-License-Identifier: Apache-2.0
#include "bench/pass_clock.h"

#include <algorithm>
#include <chrono>

#include "core/device_queue.h"

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;
using results::Scope;

constexpr int64_t kMaxLaunches = 500;  // in a row on a GPU, whose queue holds about 1000

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
}  // namespace

double min_sample_s(const Context& context) { return context.device() == Device::cpu ? 20e-6 : 100e-6; }

double PassClock::seconds(Pass& pass, int64_t batch, int64_t runs) const {
  if (cold_) pass.evict();
  context_.synchronize();
  if (scope_ == Scope::kernel) {
    bool waited = false;  // no pass does
    const auto all = static_cast<int>(batch * runs);
    return all * std::max(device_queue(context_)->device_time(pass.run_function, all, waited), 1e-9);
  }
  const auto start = Clock::now();
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t r = 0; r < runs; ++r) pass.run();
    context_.synchronize();
  }
  return since(start);
}

int64_t PassClock::batch_for(Pass& pass, double sample_s, int64_t runs) const {
  if (cold_) return 1;
  int64_t batch = 1;
  double took = seconds(pass, 1, runs);  // fills the caches
  while (took < sample_s && (scope_ != Scope::kernel || 2 * batch * runs <= kMaxLaunches)) {
    took = std::min(seconds(pass, 2 * batch, runs), seconds(pass, 2 * batch, runs));
    batch *= 2;
  }
  return batch;
}

// The candidates take turns, so that a machine that changes its speed meanwhile prefers none of them. Their best
// samples are compared: others are slow for reasons of their own.
std::unique_ptr<Pass> fastest(const PassClock& clock, std::vector<std::unique_ptr<Pass>> candidates, Trial trial) {
  if (candidates.empty()) return nullptr;
  std::vector<double> rates(candidates.size());
  std::vector<int64_t> batches;
  for (const auto& candidate : candidates)
    batches.push_back(clock.batch_for(*candidate, min_sample_s(clock.context())));
  const double budget_s = trial.budget_s * static_cast<double>(candidates.size());
  double spent_s = 0;
  for (int i = 0; i == 0 || (i < trial.max_samples && spent_s < budget_s); ++i)
    for (size_t c = 0; c < candidates.size(); ++c) {
      const double took = clock.seconds(*candidates[c], batches[c]);
      spent_s += took;
      rates[c] = std::max(rates[c], candidates[c]->amount * static_cast<double>(batches[c]) / took);
    }
  return std::move(candidates[static_cast<size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin())]);
}

}  // namespace duet::bench
