// SPDX-License-Identifier: Apache-2.0
#include "results/noise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "core/error.h"
#include "tests/results/fixture.h"

namespace duet::results {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Noise, IsTheSpreadBetweenProcessesAndRobust) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 0.02);
  double sum = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<double> values;
    for (int p = 0; p < 8; ++p) values.push_back(1e-3 * std::exp(normal(random)));
    sum += process_noise(values);
  }
  EXPECT_NEAR(sum / 400, 0.02, 0.001);
  EXPECT_LT(process_noise({1, 1.01, 0.99, 1.005, 0.995, 1, 5}), 0.03) << "one process was disturbed";
  EXPECT_EQ(process_noise({1}), 0);
  EXPECT_EQ(process_noise({}), 0);
}

Run run_of_processes(int processes) {
  Series s = make_series(Scope::call, 1e-3, 0.8, 4, Cache::warm, processes);
  for (int i = 0; i < processes; ++i) s.repetitions[static_cast<size_t>(i)].process = i;
  Run run = make_run({make_job("relu/cpu.tuned/f32/n:64", {s})});
  run.invocation.processes = processes;
  return run;
}

TEST(Noise, IsKeptByMachineAndRow) {
  NoiseFile noise;
  noise["another"]["row"] = {.noise = 0.5, .processes = 3, .measured_at = "before"};
  add_noise(run_of_processes(6), noise);
  ASSERT_EQ(noise.size(), 2U);
  const NoiseRow& row = noise["f"].at("relu/cpu.tuned/f32/n:64/call/warm/threads:4");
  EXPECT_EQ(row.processes, 6);
  EXPECT_GT(row.noise, 0.001);
  EXPECT_LT(row.noise, 0.05);
  const Scratch scratch;
  const NoiseFile again = load_noise(scratch.write("n.json", noise_text(noise)));
  EXPECT_EQ(again.at("another").at("row").noise, 0.5);
  EXPECT_EQ(noise_text(again), noise_text(noise));
  const NoiseSummary summary = summary_of(again, run_of_processes(6));
  EXPECT_EQ(summary.rows, 1U);
  EXPECT_EQ(summary.largest, row.noise);
  NoiseFile few;
  add_noise(run_of_processes(2), few);
  EXPECT_TRUE(few["f"].empty());
}

TEST(Noise, BadFilesSayWhatIsWrong) {
  const Scratch scratch;
  const auto message = [&](const std::string& text) -> std::string {
    try {
      load_noise(scratch.write("n.json", text));
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_THAT(message("{}"), HasSubstr("member 'duet_noise' is missing"));
  EXPECT_THAT(message("{\"duet_noise\": 2, \"machines\": {}}"), HasSubstr("newer than"));
  EXPECT_THAT(message("{\"duet_noise\": 1, \"machines\": {\"f\": {\"r\": {\"noise\": -1, \"processes\": 3, "
                      "\"measured_at\": \"\"}}}}"),
              HasSubstr("-1 is not a number of at least 0"));
  EXPECT_THAT(message(run_text(run_of_processes(3))), HasSubstr("is a run file"));
  EXPECT_TRUE(load_noise_if_any((scratch / "none.json").string()).empty());
}

}  // namespace
}  // namespace duet::results
