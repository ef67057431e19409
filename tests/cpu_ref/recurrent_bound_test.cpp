// SPDX-License-Identifier: Apache-2.0
// The bounds of recurrent layers over many steps, where the errors that are left of early roundings point all in the
// direction that fades least: a bound that takes them as independent refuses correct gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/cases.h"
#include "core/cpu_context.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr const char* kOps[] = {"rnn_tanh", "rnn_tanh_backward", "rnn_tanh_training",
                                "gru",      "gru_backward",      "gru_training",
                                "lstm",     "lstm_backward",     "lstm_training"};

std::vector<std::string> many_steps(const std::string& op, int T) {
  const std::string one = fmt::format("T:{} B:2 I:3 H:7", T);
  if (op.ends_with("_backward")) return {one + " last_only:1"};
  if (op.ends_with("_training")) return {one, one + " layers:2"};
  return {one};
}

TEST(RecurrentBound, TakesCorrectResultsOfManySteps) {
  CpuContext cpu(1);
  for (const std::string op : kOps)
    for (const int T : {50, 200})
      for (const std::string& words : many_steps(op, T))
        for (const uint64_t seed : {1, 2, 3, 4}) {
          const Problem problem = parse_case(op, words);
          const HostTensors inputs = draw_inputs(problem, FillMode::values, seed);
          const Expected expected = Expected::all(problem, inputs);
          for (const Implementation* i : implementations(op)) {
            if (i->device != Device::cpu || !i->name.starts_with("cpu.")) continue;
            Session session(problem, *i, cpu, inputs);
            if (!session.supported()) continue;
            cpu.enter([&] { session.run(); });
            const Check check = session.check(expected, false);
            EXPECT_TRUE(check.passed()) << op << " " << i->name << " " << words << " seed " << seed << ": "
                                        << check.failure;
          }
        }
}

// Results that were rounded to f16 on the way are 2^-12 off on average.
TEST(RecurrentBound, RefusesTheNextLowerPrecision) {
  for (const std::string op : kOps)
    for (const std::string& words : many_steps(op, 50)) {
      const Problem problem = parse_case(op, words);
      const HostTensors inputs = draw_inputs(problem, FillMode::values, 1);
      const Expected expected = Expected::all(problem, inputs);
      const std::vector<TensorSpec> specs = problem.tensors();
      std::vector<int64_t> wide(specs.size()), all(specs.size());
      for (const Claim& c : expected.claims()) {
        const auto slot = static_cast<size_t>(c.slot);
        ++all[slot];
        wide[slot] += bound_of(problem.tolerance(c.slot), c) > 0x1p-12 * std::abs(c.want);
      }
      for (size_t slot = 0; slot < specs.size(); ++slot)
        EXPECT_LE(wide[slot], all[slot] / 4) << op << " " << words << " " << specs[slot].name;
    }
}

}  // namespace
}  // namespace duet
