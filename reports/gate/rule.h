// SPDX-License-Identifier: Apache-2.0
// How the gate decides, apart from how values are measured: which rows are suspects after a few processes, and which of
// them fresh processes confirm. gate.h runs the processes; tests/stats simulates thousands of gates on these functions
// and prints how often they are wrong.
//
// A value is the median of one process. Repetitions of a process share its layout, clocks and neighbours: a test on
// them would call a third of unchanged rows different where processes differ by 2 %.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "reports/compare/compare.h"
#include "results/statistics.h"

namespace duet::reports {

struct GateRule {
  double screen_shift = 0.025;     // of medians, beyond which a row is a suspect
  double screen_noise = 0.75;      // or beyond so many standard deviations of that shift, where that is more
  double min_effect = 0.03;        // smaller shifts are never SLOWER or FASTER
  double noise_factor = 3;         // nor those below so many standard deviations of the estimate
  double q = 0.01;                 // Benjamini-Hochberg, over the suspects of a device; half of it is for SLOWER
  double go_on_shift = 0.02;       // suspects below it after the first round are the same
  size_t screen_processes = 3;     // of each program, with all cases
  size_t round_processes = 8;      // of each program, with the suspects
  size_t rounds = 3;               // each with those that the one before leaves in doubt, or would call different
  size_t min_clean_processes = 6;  // of a side; with fewer undisturbed ones, all count
};

// What the processes of both programs took for one row.
struct Evidence {
  std::vector<double> base, head;
  double known_noise = 0;  // standard deviation between processes of one program (bench_all --aa); 0: unknown
};

// Of the estimated shift between two samples, from their scatter or what is known, whichever is more.
double noise_of_shift(const Evidence& evidence);

bool is_suspect(const Evidence& evidence, const GateRule& rule);

struct Ruling {
  Verdict verdict = Verdict::same;  // slower, faster, same or ambiguous
  const char* code = "";
  results::Interval ratio;
  double p = 1, q = 1, floor = 0;
  bool go_on = false;  // another round could change the verdict, or has to confirm it
};
// Of the suspects of one device after some rounds. tests: how many suspects there were at first; those that earlier
// rounds found to be the same count as tests, too.
std::vector<Ruling> rule_on(std::span<const Evidence> suspects, size_t tests, const GateRule& rule, bool last_round);

}  // namespace duet::reports
