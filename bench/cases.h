// SPDX-License-Identifier: Apache-2.0
// What a run consists of: cases, and for each the sides that compete on it. Built from the registries; names no op.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/runner.h"
#include "core/attributes.h"
#include "core/context.h"
#include "results/run.h"

namespace duet::bench {

struct Side {
  std::string implementation, job;  // "cpu.tuned", "softmax/cpu.tuned/f32/rows:64/cols:1000"
  Device device;
  std::string unavailable_reason;  // why it is not in this build; empty where it is
};

class BenchCase {
 public:
  virtual ~BenchCase() = default;
  // Draws inputs and computes the reference, once for all sides; release() frees the memory.
  virtual void prepare(uint64_t seed) = 0;
  virtual void release() = 0;
  // Null with a reason: the implementation does not serve this case.
  virtual std::unique_ptr<Runner> make(const Side& side, Context& context, std::string& unsupported_reason) = 0;
  virtual std::string repro(const Side& side) const = 0;  // a command that shows a wrong answer again
  // Only of training steps and inferences, after timing: phases and nodes one by one. residual_s is left to the caller.
  virtual std::optional<results::Step> profile_step(Runner&) { return std::nullopt; }

  std::string op, label, family, formula, why, dtype, math, pattern;
  std::vector<Attribute> params;
  double flops = 0;
  int64_t bytes = 0, footprint_bytes = 0;
  bool cpu_roof = true, gpu_roof = true;  // whether bandwidth and arithmetic bound it there (core/op_traits.h)
  std::vector<Side> sides;
  std::string name() const { return op + "/" + label; }
};

using Cases = std::vector<std::unique_ptr<BenchCase>>;

// Everything that the options select, in registry order, without the sides that the filter excludes. Throws Error when
// nothing is left.
Cases select_cases(const Options& options);

// The two kinds of case; step_cases: training steps and inferences; select_cases() joins them.
Cases op_cases(const Options& options);
Cases step_cases(const Options& options);

}  // namespace duet::bench
