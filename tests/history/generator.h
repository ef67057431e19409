// SPDX-License-Identifier: Apache-2.0
// Invented histories for tests: many runs of a few cases with seeded noise. No number in them is a measurement.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "reports/history/history.h"
#include "tests/results/fixture.h"

namespace duet::history::testing {

using results::testing::Scratch;

// The time of run `run`'s day and second.
inline std::string time_of(int64_t run) {
  const int64_t minutes = run * 30, days = minutes / 1440;  // months of 28 days
  return fmt::format("20{:02}-{:02}-{:02}T{:02}:{:02}:00Z", 20 + days / 336, days / 28 % 12 + 1, days % 28 + 1,
                     minutes / 60 % 24, minutes % 60);
}

struct Generated {
  int64_t cases = 4;
  double noise = 0.01;  // standard deviation of the logarithms, from run to run
  double outliers = 0;  // share of times that are far too long
  uint64_t seed = 1;
  std::string scale = "quick";
  std::function<double(int64_t run, int64_t at)> factor = [](int64_t, int64_t) { return 1.0; };

  std::string job(int64_t at) const { return fmt::format("op{}/cpu.tuned/f32/n:{}", at % 5, at); }
  std::string key(int64_t at) const { return job(at) + "/call/warm/threads:2"; }

  // As record_of() makes it of a run file; the same run is the same each time it is asked for.
  Conversion run(int64_t number) const {
    std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(number));
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    Conversion c;
    c.machine = {"f1", {{"cpu", "a CPU"}, {"cores", "2"}, {"gpu", "none"}}};
    RunInfo& info = c.record.info;
    info.name = {"f1", "host", fmt::format("r{:06}", number)};
    info.started_at = time_of(number);
    info.git_sha = fmt::format("{:040x}", number);
    info.reason = "ci";
    info.trust = "trustworthy";
    info.environment = {{"build.compiler", "GNU 12"}, {"gpu.driver", number < 60 ? "575" : "580"},
                        {"settings.seed", "1"},       {"settings.threads", "2"},
                        {"settings.scale", scale},    {"settings.min_time_s", "0.05"}};
    for (int64_t at = 0; at < cases; ++at) {
      SeriesInfo s{.key = key(at),
                   .case_name = fmt::format("op{}/f32/n:{}", at % 5, at),
                   .family = fmt::format("family{}", at % 5),
                   .op = fmt::format("op{}", at % 5),
                   .impl = "cpu.tuned",
                   .device = "cpu",
                   .dtype = "f32",
                   .scope = "call",
                   .cache = "warm",
                   .params_json = "{\"n\":1}",
                   .threads = 2,
                   .flops = 1e6,
                   .bytes = 4000};
      double time_s = 1e-5 * static_cast<double>(at + 1) * factor(number, at) * std::exp(noise * normal(random));
      if (uniform(random) < outliers) time_s *= 1.5;
      c.series.push_back(std::move(s));
      c.record.measurements.push_back({.key = key(at),
                                       .median_s = time_s,
                                       .lo_s = 0.99 * time_s,
                                       .hi_s = 1.01 * time_s,
                                       .min_s = 0.98 * time_s,
                                       .medians_s = {0.99 * time_s, time_s, 1.01 * time_s},
                                       .disturbed = false});
    }
    std::sort(c.record.measurements.begin(), c.record.measurements.end(),
              [](const Measurement& a, const Measurement& b) { return a.key < b.key; });
    return c;
  }

  void fill(History& history, int64_t begin, int64_t end) const {
    history.database().execute("PRAGMA synchronous = OFF");  // a test needs no safety against power cuts
    for (int64_t number = begin; number < end; ++number) history.add(run(number));
  }
};

}  // namespace duet::history::testing
