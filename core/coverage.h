// SPDX-License-Identifier: Apache-2.0
// How every element of the outputs of a problem is compared, and not only sampled slices. bench/op_cases.cpp has one
// for each drawing of inputs that needs it; what it computes it computes once, for all sides of the case.
// models/replay.cpp has one for each op of a step.
// The cheapest that applies is taken:
//   reference     all slices of the reference, on all threads
//   projections   of products: core/projection.h. Outputs in 16 bits, whose roundings would hide errors, are compared
//                 with those of an implementation in f32, which is itself checked by projections
//   cpu.tuned     or another implementation on the CPU, of another library than the one that is compared. It is
//                 compared with the reference on sampled slices, and then element by element, within the sum of both
//                 bounds. Products whose outputs are not linear in an axis, such as those inside recurrent layers, have
//                 cpu.openblas for this
//   sampled       nothing of this can be afforded: only the sampled slices are compared, and sampled_reason says why
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/answer.h"
#include "core/cpu_context.h"
#include "core/projection.h"

namespace duet {

// A comparison of sampled slices that passed, together with one of all elements.
Check joined(Check sampled, const Check& all);

class Coverage {
 public:
  // What an implementation's difference from another one is, where the reference would take too long to say which of
  // the two is wrong: a failure, or, with inputs that are not drawn as the bounds assume, a reason for "sampled" up to
  // kUndecided times the bound.
  enum class Undecided : uint8_t { fails, is_sampled };

  // expected: the reference on sampled slices, which takes `expected_s` on all threads. budget_s: what the reference
  // may take where there is another way; max_s: where there is none; decision_s: where two implementations differ.
  // Everything is kept by reference.
  Coverage(const Problem& problem, const HostTensors& inputs, const Expected& expected, double expected_s,
           double budget_s, double max_s, uint64_t seed, double decision_s = 60,
           Undecided undecided = Undecided::fails);

  // Compares the outputs of an implementation. What is equal, bit for bit, to outputs that passed before passes.
  Check compare(const std::string& implementation, const HostTensors& got);

 private:
  Check compare_with_second(const std::string& implementation, const HostTensors& got);
  bool reference_takes_over(double limit_s);
  const Answer* whole_reference();
  const Answer* in_f32();                                   // of a product with 16-bit outputs
  const Answer* second(const std::string& implementation);  // any but this one
  std::vector<double> max_abs_sums() const;
  std::optional<HostTensors> outputs_of(const std::string& implementation, const Problem& problem,
                                        const HostTensors& inputs);

  Problem problem_;
  const HostTensors* inputs_;
  const Expected* expected_;
  double reference_s_, budget_s_, max_s_, decision_s_;
  std::optional<double> timed_reference_s_;  // better than reference_s_, where that decides
  Undecided undecided_;
  uint64_t seed_;
  int64_t needed_bytes_;
  bool fits_;
  std::unique_ptr<CpuContext> cpu_;
  std::optional<Answer> reference_, in_f32_;
  bool tried_in_f32_ = false;
  std::string in_f32_by_;
  std::optional<Projection> projection_;
  std::map<std::string, std::optional<Answer>> others_;  // by implementation
  std::map<uint64_t, Check> passed_;                     // by the checksum of the outputs
};

}  // namespace duet
