// SPDX-License-Identifier: Apache-2.0
// A window of applications with invented meters.
#include "bench/counters.h"

#include <gmock/gmock.h>

#include <utility>

namespace duet::bench {
namespace {

using ::testing::HasSubstr;

// Counts what applications tell it, while it is started.
struct Counter {
  double total = 0;
  int polls = 0;
  bool on = false, works = true;
  const Counter* outer = nullptr;  // that started before this one
  bool stopped_inside = false;     // while that one was on
};
class FakeMeter final : public Meter {
 public:
  explicit FakeMeter(Counter& counter) : counter_(&counter) {}
  void start() override {
    counter_->on = true;
    counter_->total = 0;
  }
  void poll() override { ++counter_->polls; }
  std::optional<double> stop(std::string& reason) override {
    counter_->on = false;
    if (counter_->outer) counter_->stopped_inside = counter_->outer->on;
    if (!counter_->works) reason = "it broke";
    return counter_->works ? std::optional(counter_->total) : std::nullopt;
  }

 private:
  Counter* counter_;
};

TEST(CounterWindow, ValuesAreOfOneApplicationAndWhatFailsHasAReason) {
  Counter energy, still, broken{.works = false};
  Gauges gauges;
  gauges.push_back({Quantity::cpu_energy_j, "RAPL", std::make_unique<FakeMeter>(energy), ""});
  gauges.push_back({Quantity::bytes, "misses", std::make_unique<FakeMeter>(still), ""});
  gauges.push_back({Quantity::cycles, "perf", std::make_unique<FakeMeter>(broken), ""});
  gauges.push_back({Quantity::instructions, "", nullptr, "no such counter"});
  results::Counters counters;
  int applied = 0, between = 0;
  take_window(gauges,
              {.apply =
                   [&](int runs) {
                     EXPECT_TRUE(energy.on);
                     applied += runs;
                     energy.total += 0.5 * runs;
                   },
               .between = [&] { ++between; },
               .application_s = 1e-3},
              0.01, counters);
  ASSERT_TRUE(counters.window);
  EXPECT_EQ(counters.window->applications, applied);
  EXPECT_EQ(applied % 200, 0) << "0.2 s at a time";
  EXPECT_GE(counters.window->time_s, 0.01);
  EXPECT_EQ(energy.polls, between);
  ASSERT_EQ(counters.readings.size(), 4u);
  EXPECT_EQ(counters.value_of(Quantity::cpu_energy_j), 0.5);
  EXPECT_EQ(counters.readings[0].source, "RAPL");
  EXPECT_NEAR(counters.watts_of(Quantity::cpu_energy_j).value_or(0), energy.total / counters.window->time_s, 1e-9);
  for (const size_t i : {1, 2, 3}) {
    EXPECT_FALSE(counters.readings[i].value) << "never 0";
    EXPECT_EQ(counters.readings[i].source, "");
  }
  EXPECT_THAT(counters.readings[1].unavailable_reason, HasSubstr("stood still"));
  EXPECT_EQ(counters.readings[2].unavailable_reason, "it broke");
  EXPECT_EQ(counters.readings[3].unavailable_reason, "no such counter");
}

TEST(CounterWindow, WhatStartsFirstStopsLast) {
  Counter outer, inner{.total = 1};
  Gauges gauges;
  gauges.push_back({Quantity::bytes, "CUPTI", std::make_unique<FakeMeter>(outer), ""});
  gauges.push_back({Quantity::gpu_energy_j, "NVML", std::make_unique<FakeMeter>(inner), ""});
  inner.outer = &outer;
  results::Counters counters;
  take_window(gauges, {.apply = [](int) {}, .between = [] {}, .application_s = 1}, 0.001, counters);
  EXPECT_TRUE(inner.stopped_inside);
  ASSERT_EQ(counters.readings.size(), 2u);
  EXPECT_EQ(counters.readings[0].quantity, Quantity::bytes) << "in the order of the gauges";
}

TEST(CounterWindow, AJobThatCannotBeCountedKeepsTheReasonsOfTheMachine) {
  Counter counter;
  Gauges gauges;
  gauges.push_back({Quantity::cycles, "perf", std::make_unique<FakeMeter>(counter), ""});
  gauges.push_back({Quantity::bytes, "", nullptr, "no such counter"});
  EXPECT_TRUE(any_can_measure(gauges));
  results::Counters counters;
  take_nothing(gauges, "it restores", counters);
  EXPECT_FALSE(counters.window);
  EXPECT_EQ(counters.readings[0].unavailable_reason, "it restores");
  EXPECT_EQ(counters.readings[1].unavailable_reason, "no such counter");
  gauges.erase(gauges.begin());
  EXPECT_FALSE(any_can_measure(gauges));
}

}  // namespace
}  // namespace duet::bench
