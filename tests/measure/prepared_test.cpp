// SPDX-License-Identifier: Apache-2.0
// Implementations that prepare an input before the clock: an honest one is timed, and its row says so; one that uses
// the preparation to do less gets no number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "bench/case_timer.h"
#include "bench/cases.h"
#include "core/cpu_context.h"
#include "ops/elementwise/swiglu.h"

namespace duet::bench {
namespace {

int preparations = 0;

Plan prepared_plan(const SwiGlu& p, bool keeps_its_answer) {
  WorkspaceLayout workspace;
  const auto slope = workspace.add<float>(p.n);
  auto run = [=, answer = std::vector<float>()](const Args& t) mutable {
    const float *of_gate = t.workspace(slope), *up = t[SwiGlu::up].as<const float>();
    float* y = t[SwiGlu::y].as<float>();
    if (keeps_its_answer && !answer.empty() && answer[0] == of_gate[0]) {
      std::memcpy(y, answer.data() + 1, static_cast<size_t>(p.n) * sizeof(float));
      return;
    }
    for (int64_t i = 0; i < p.n; ++i) y[i] = of_gate[i] * up[i];
    answer.assign(1, of_gate[0]);
    answer.insert(answer.end(), y, y + p.n);
  };
  return Plan(std::move(run)).with("silu first", workspace).prepared({SwiGlu::gate}, [=](const Args& t) {
    ++preparations;
    const float* gate = t[SwiGlu::gate].as<const float>();
    for (int64_t i = 0; i < p.n; ++i) t.workspace(slope)[i] = gate[i] / (1 + std::exp(-gate[i]));
  });
}
Plan swiglu_honest(const SwiGlu& p, CpuContext&) { return prepared_plan(p, false); }
Plan swiglu_waiting(const SwiGlu& p, CpuContext&) { return prepared_plan(p, true); }  // for a new gate
DUET_REGISTER(swiglu_honest);
DUET_REGISTER(swiglu_waiting);

Options options_of(const char* text) {
  Options options;
  options.preset = Preset::quick;
  options.gpu = false;
  options.repetitions = 2;
  options.min_time_s = 0.002;
  options.threads = 1;
  options.cases = read_named_cases({text});
  return options;
}

TEST(Prepared, AnHonestRowSaysSoAndOneThatWaitsForNewsGetsNoNumber) {
  const Options options = options_of("swiglu n:20003");
  Devices devices;
  devices.cpu = std::make_unique<CpuContext>(1);
  devices.no_gpu = "not wanted";
  const std::vector<Ceiling> no_ceilings;
  CaseTimer timer(options, devices, no_ceilings);
  int seen = 0;
  for (const auto& c : op_cases(options)) {
    std::erase_if(c->sides,
                  [](const Side& s) { return s.implementation != "cpu.honest" && s.implementation != "cpu.waiting"; });
    for (const results::Job& job : timer.measure(*c)) {
      ++seen;
      if (job.impl == "cpu.honest") {
        EXPECT_EQ(job.status, results::Status::ok) << job.reason;
        EXPECT_EQ(job.plan->algorithm, "silu first; brought into its form before the clock: gate");
      } else {
        EXPECT_EQ(job.status, results::Status::failed) << job.impl << " got a time";
      }
    }
  }
  EXPECT_EQ(seen, 2);
}

// The scopes with copies bring the input anew for each application.
TEST(Prepared, AnUploadIsFollowedByAPreparation) {
  const Options options = options_of("swiglu n:1009");
  CpuContext cpu(1);
  const Cases cases = op_cases(options);
  cases[0]->prepare(1);
  std::string reason;
  const Side side{"cpu.honest", "", Device::cpu, ""};
  const std::unique_ptr<Runner> runner = cases[0]->make(side, cpu, reason);
  ASSERT_TRUE(runner) << reason;
  const auto applied = [&] {
    const int before = preparations;
    cpu.enter([&] { runner->run(0); });
    return preparations - before;
  };
  EXPECT_EQ(applied(), 0);
  runner->refreshed();
  EXPECT_EQ(applied(), 1);
  EXPECT_EQ(applied(), 0);
}

}  // namespace
}  // namespace duet::bench
