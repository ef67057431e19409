// SPDX-License-Identifier: Apache-2.0
// How often the gate is wrong: its decision functions on thousands of simulated rows, with fixed seeds. Prints the
// table.
// Processes differ by log-normal noise. One row of each gate is slower by a known amount, the others did not change.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "reports/gate/rule.h"

namespace duet::reports {
namespace {

constexpr size_t kRows = 100;  // of a gate
constexpr int kGates = 200;    // for each spread

// Draws processes of one row. Heavy: one in ten processes is disturbed, by 20 % on average.
struct Source {
  double spread = 0;
  bool heavy = false;
  std::mt19937_64 random;

  double process(double time_s) {
    double log = std::normal_distribution(0.0, spread)(random);
    if (heavy && std::bernoulli_distribution(0.1)(random)) log += std::exponential_distribution(5.0)(random);
    return time_s * std::exp(log);
  }
  void add(Evidence& e, double slowdown, size_t processes) {
    for (size_t i = 0; i < processes; ++i) {
      e.base.push_back(process(1));
      e.head.push_back(process(slowdown));
    }
  }
};

struct Outcome {
  size_t suspects = 0, processes_of_suspects = 0;
  bool false_alarm = false, found = false;
};

// Row 0 is slower, the others are not.
Outcome gate(Source& source, double slowdown, const GateRule& rule) {
  const auto slowdown_of = [&](size_t row) { return row == 0 ? slowdown : 1.0; };
  std::vector<size_t> rows;
  for (size_t row = 0; row < kRows; ++row) {
    Evidence screen;
    source.add(screen, slowdown_of(row), rule.screen_processes);
    if (is_suspect(screen, rule)) rows.push_back(row);
  }
  Outcome outcome{rows.size()};
  const size_t tests = rows.size();
  std::vector<Evidence> evidence(rows.size());
  for (size_t round = 0; round < rule.rounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) source.add(evidence[i], slowdown_of(rows[i]), rule.round_processes);
    outcome.processes_of_suspects += 2 * rows.size() * rule.round_processes;
    const bool last = round + 1 == rule.rounds;
    const std::vector<Ruling> rulings = rule_on(evidence, tests, rule, last);
    std::vector<size_t> rows_left;
    std::vector<Evidence> evidence_left;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rulings[i].go_on) {
        rows_left.push_back(rows[i]);
        evidence_left.push_back(std::move(evidence[i]));
      } else if (rulings[i].verdict == Verdict::slower) {
        const bool planted = rows[i] == 0 && slowdown > 1;
        (planted ? outcome.found : outcome.false_alarm) = true;
      }
    }
    rows = std::move(rows_left);
    evidence = std::move(evidence_left);
  }
  return outcome;
}

struct Rates {
  double false_alarms = 0, found = 0, suspects = 0, processes = 0;
};

Rates simulate(double spread, double slowdown, bool heavy, int gates = kGates) {
  const GateRule rule;
  Source source{spread, heavy, std::mt19937_64(static_cast<uint64_t>(1e6 * spread + 1e3 * slowdown + (heavy ? 7 : 0)))};
  Rates sum;
  for (int i = 0; i < gates; ++i) {
    const Outcome o = gate(source, slowdown, rule);
    sum.false_alarms += o.false_alarm;
    sum.found += o.found;
    sum.suspects += static_cast<double>(o.suspects);
    sum.processes += static_cast<double>(o.processes_of_suspects) / kRows;
  }
  for (double* value : {&sum.false_alarms, &sum.found, &sum.suspects, &sum.processes}) *value /= gates;
  return sum;
}

void print(const char* what, double spread, const Rates& r) {
  fmt::print("{:>9}  {:>10}  {:>8.1f}  {:>16.1f}  {:>12.2f} %  {:>6.1f} %\n", fmt::format("{:.0f} %", 100 * spread),
             what, r.suspects, r.processes, 100 * r.false_alarms, 100 * r.found);
}

TEST(Gates, FalseAlarmsAreRareAndPlantedSlowdownsAreFound) {
  fmt::print("{} gates a line, {} rows each; processes are those of a row beside the screen's\n", kGates, kRows);
  fmt::print("   spread     planted  suspects   processes a row   false alarms     found\n");
  for (const bool heavy : {false, true})
    for (const double spread : {0.01, 0.02, 0.03}) {
      const Rates none = simulate(spread, 1, heavy);
      print(heavy ? "none, loud" : "none", spread, none);
      EXPECT_LE(none.false_alarms, 0.01);
      for (const double slowdown : {1.05, 1.10}) {
        const Rates planted = simulate(spread, slowdown, heavy);
        print(slowdown < 1.07 ? "5 %" : "10 %", spread, planted);
        EXPECT_LE(planted.false_alarms, heavy ? 0.02 : 0.01);  // a true rejection lets Benjamini-Hochberg allow more
        if (heavy) continue;
        EXPECT_GE(planted.found, slowdown < 1.07 ? 0.60 : 0.95);
      }
    }
}

}  // namespace
}  // namespace duet::reports
