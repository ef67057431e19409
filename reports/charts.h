// SPDX-License-Identifier: Apache-2.0
// Draws rows of the analysis (chart_bars.cpp, chart_curves.cpp). Nothing is computed here but positions.
#pragma once
#include "reports/analysis.h"
#include "reports/document.h"

namespace duet::reports {

std::vector<Chart> speedup_charts(const Analysis& analysis, size_t rows_per_chart);  // one row per case
std::vector<Chart> bandwidth_charts(const Analysis& analysis, size_t rows_per_chart);
Chart roofline_chart(const Roofline& roofline);
Chart break_even_chart(const BreakEvenRow& row, size_t number);
// A bar per step and side: the largest batch of each model first, its other batches in further charts.
std::vector<Chart> step_charts(const std::vector<StepRow>& rows, size_t rows_per_chart);

// "speedup", "speedup_2", ...
std::string numbered(const std::string& stem, size_t number);

}  // namespace duet::reports
