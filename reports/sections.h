// SPDX-License-Identifier: Apache-2.0
// The report's sections, in the order of a page. They arrange rows of the analysis; they compute nothing.
#pragma once
#include "reports/analysis.h"
#include "reports/document.h"
#include "reports/report.h"

namespace duet::reports {

Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options);

// Parts of it (sections_*.cpp).
void add_results(const Analysis& analysis, const ReportOptions& options, Document& document);
void add_missing_section(const Run& run, const Analysis& analysis, Document& document);
void add_appendix(const Run& run, Document& document);

// Share of the roof with its tone.
Span roof_span(const Series& series);
std::string unbroken(std::string text);  // with non-breaking spaces

}  // namespace duet::reports
