// SPDX-License-Identifier: Apache-2.0
// Draws rows of the analysis (chart_bars.cpp, chart_curves.cpp). Nothing is computed here but positions.
#pragma once
#include <optional>

#include "reports/analysis.h"
#include "reports/document.h"

namespace duet::reports {

// Charts of single cases that a page folds away under their summary.
struct CaseCharts {
  std::string summary;  // "norm: 12 cases, median GPU 8.2× by call"
  std::vector<Chart> charts;
};

// The chart of the first screen: ranked speedups, each family at its median with its spread. None without a ratio.
std::optional<Chart> family_chart(const Analysis& analysis);
std::vector<CaseCharts> speedup_charts(const Analysis& analysis, size_t rows_per_chart);  // a group for each family
std::optional<Chart> bandwidth_family_chart(const Analysis& analysis);
std::vector<CaseCharts> bandwidth_charts(const Analysis& analysis, size_t rows_per_chart);
Chart roofline_chart(const Roofline& roofline, size_t number = 1);  // number: among those of its device
Chart break_even_chart(const BreakEvenRow& row, size_t number);
// A bar per step and side: the largest batch of each model first, its other batches in further charts.
std::vector<Chart> step_charts(const std::vector<StepRow>& rows, size_t rows_per_chart);

// "speedup", "speedup_2", ...
std::string numbered(const std::string& stem, size_t number);

}  // namespace duet::reports
