// SPDX-License-Identifier: Apache-2.0
// Implementations that prepare an input before the clock: an honest one is timed, and its row says so; one that uses
// the preparation to do less gets no number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/case_timer.h"
#include "bench/cases.h"
#include "core/cpu_context.h"
#include "ops/gemm/gemv.h"

namespace duet::bench {
namespace {

int preparations = 0;

// The product with a copy of the matrix. The faulty one repeats its answer until it is prepared again.
Plan prepared_plan(const Gemv& p, bool is_faulty) {
  WorkspaceLayout workspace;
  const auto copy = workspace.add<float>(p.m * p.n);
  const auto is_news = std::make_shared<bool>(true);
  auto run = [=, answer = std::vector<float>()](const Args& t) mutable {
    const float *a = t.workspace(copy), *x = t[Gemv::x].as<const float>();
    if (!is_faulty || *is_news) {
      answer.assign(static_cast<size_t>(p.m), 0);
      for (int64_t i = 0; i < p.m; ++i)
        answer[static_cast<size_t>(i)] = std::inner_product(x, x + p.n, a + i * p.n, 0.0f);
    }
    *is_news = false;
    std::copy(answer.begin(), answer.end(), t[Gemv::y].as<float>());
  };
  return Plan(std::move(run)).with("a copy", workspace).prepared({Gemv::a}, [=](const Args& t) {
    ++preparations;
    *is_news = true;
    const float* a = t[Gemv::a].as<const float>();
    std::copy(a, a + p.m * p.n, t.workspace(copy));
  });
}
Plan gemv_honest(const Gemv& p, CpuContext&) { return prepared_plan(p, false); }
Plan gemv_waiting(const Gemv& p, CpuContext&) { return prepared_plan(p, true); }  // for news
DUET_REGISTER(gemv_honest);
DUET_REGISTER(gemv_waiting);

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
  const Options options = options_of("gemv m:301 n:67");
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
        EXPECT_EQ(job.plan->algorithm, "a copy; brought into its form before the clock: a");
      } else {
        EXPECT_EQ(job.status, results::Status::failed) << job.impl << " got a time";
      }
    }
  }
  EXPECT_EQ(seen, 2);
}

// The scopes with copies bring the input anew for each application.
TEST(Prepared, AnUploadIsFollowedByAPreparation) {
  const Options options = options_of("gemv m:33 n:17");
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
