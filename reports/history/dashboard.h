// SPDX-License-Identifier: Apache-2.0
// A history as one page: what changed in words, the series that changed, then every series by family as small charts.
// Vertical lines are changes of driver, library, compiler or setting: not every step is code. Complete without scripts.
#pragma once
#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/history/trend.h"

namespace duet::history {

// `source`: name of the database, for the page.
reports::Document make_dashboard(const std::vector<MachineTrend>& trends, const std::string& source);

// Changed series as a table, for a terminal, too. At most `max_rows`; all: also those that did not change.
reports::Table changes_table(const MachineTrend& trend, size_t max_rows, bool all);

}  // namespace duet::history
