// SPDX-License-Identifier: Apache-2.0
// Counts and phrases of which answer.cpp and conclusions.cpp make their sentences.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/analysis.h"

namespace duet::reports {

inline constexpr double kNearRoof = 0.7;  // of the roof: not much is left to gain

using Rows = std::vector<const SpeedupRow*>;

// One row a case.
Rows rows_of(const Analysis& analysis, Kind kind);
size_t count_wins(const Rows& rows, Winner side);
std::optional<double> median_ratio(const Rows& rows, Scope scope);
const char* verb(size_t count, const char* one, const char* several);
// "all 3", "2 of 3"
std::string out_of(size_t count, size_t all);
// "the GPU wins 61 of 80 cases, the CPU 17, and 2 are level"
std::string score(const Rows& rows, const char* noun);
std::string sentence(std::string text);
// "the GPU is 18.0× faster", "the CPU is 3.10× faster"
std::string faster_side(double ratio);
std::string winner_text(const SpeedupRow& row);
std::vector<const OneSidedRow*> one_sided(const Analysis& analysis, Device device, Kind kind);
size_t count_cases(const std::vector<const OneSidedRow*>& rows);
// The share of its roof that a CPU row reaches, where it means something.
std::optional<double> roof_share(const OneSidedRow& row);
// "4 cases"; "8 results of 4 cases" where several machines measured them.
std::string results_text(const std::vector<const OneSidedRow*>& rows);
// "the median of 4 cases", "the median of 3 of 4 cases; the other has no roof": what a median of shares is over.
std::string median_of(const std::vector<const OneSidedRow*>& with_roof, const std::vector<const OneSidedRow*>& all);
const char* noun_of(const std::vector<const OneSidedRow*>& rows);
std::string near_sentence(const std::vector<double>& shares, const char* noun);
std::string weak_cpu_sentence(const std::vector<const OneSidedRow*>& rows);
// "A library is more than 10 % faster than our own CPU code in 2 cases: conv2d ... (cpu.onednn, 1.27×), ..."; or empty.
std::string beaten_sentence(const Analysis& analysis);

}  // namespace duet::reports
