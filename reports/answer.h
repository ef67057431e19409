// SPDX-License-Identifier: Apache-2.0
// What a run says, in words: the first lines of a report and the last of the console (answer()), and the sentence that
// ends each section (conclude_*()). Everything is computed from the analysis; sections*.cpp and console.cpp place it.
#pragma once
#include <string>
#include <vector>

#include "reports/analysis.h"

namespace duet::reports {

struct Answer {
  std::string headline;                // one sentence: who wins, or what the CPU run says
  std::vector<std::string> sentences;  // by importance
  std::vector<std::string> cautions;   // what to read with care
  std::string text() const;            // all of them
};
Answer answer(const Run& run, const Analysis& analysis);

// Each is empty where the section has nothing to conclude.
std::string conclude_speedups(const Analysis& analysis);
std::string conclude_steps(const Analysis& analysis, Kind kind);  // of training steps, or of inferences
std::string conclude_rooflines(const Analysis& analysis);
std::string conclude_bandwidth(const Analysis& analysis);
std::string conclude_break_even(const Analysis& analysis);
std::string conclude_cases(const Analysis& analysis);
std::string conclude_cpu_times(const Analysis& analysis);
std::string conclude_missing(const Analysis& analysis);
std::string conclude_ceilings(const Run& run);

}  // namespace duet::reports
