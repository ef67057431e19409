// SPDX-License-Identifier: Apache-2.0
// Times passes (core/pass.h) as rows are timed, on any device, and finds the fastest of several.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/context.h"
#include "core/pass.h"
#include "results/run.h"

namespace duet::bench {

// A shorter timing would be that of the clock: 20 us on a CPU, 100 us on a GPU.
double min_sample_s(const Context& context);

class PassClock {
 public:
  // scope: kernel, by the device's clock, or call. cold: the caches are emptied before each timing.
  PassClock(Context& context, results::Scope scope, bool cold) : context_(context), scope_(scope), cold_(cold) {}

  Context& context() const { return context_; }
  bool cold() const { return cold_; }
  // Both inside the context's enter(). Seconds of `batch` groups of `runs` runs; in the scope call each group ends with
  // a wait for the device.
  double seconds(Pass& pass, int64_t batch, int64_t runs = 1) const;
  // So many groups that they take sample_s at least; runs them until the time is reached. One where samples are cold.
  int64_t batch_for(Pass& pass, double sample_s, int64_t runs = 1) const;

 private:
  Context& context_;
  results::Scope scope_;
  bool cold_;
};

// How long candidates are tried before the fastest one is taken.
struct Trial {
  double budget_s = 8e-3;  // for each candidate
  int max_samples = 10;
};
// Null where there are no candidates. Call it inside the context's enter().
std::unique_ptr<Pass> fastest(const PassClock& clock, std::vector<std::unique_ptr<Pass>> candidates, Trial trial);

}  // namespace duet::bench
