// SPDX-License-Identifier: Apache-2.0
// The memory and transfer study: Study of analysis.h has its rows, studies.cpp makes them. Its implementations are no
// rivals, so that they take part in no ratio, chart or total elsewhere (results::is_study).
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "reports/analysis.h"
#include "reports/document.h"

namespace duet::reports {

// t = fixed + amount / rate through points of amount and time, each weighted by its time: a relative error counts alike
// at any size. Empty with fewer than two amounts, or where no positive rate fits.
struct FixedAndRate {
  double fixed_s = 0, rate = 0;
};
std::optional<FixedAndRate> fit(const std::vector<std::pair<double, double>>& amount_and_time);

Chart study_chart(const Study& study);

}  // namespace duet::reports
