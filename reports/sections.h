// SPDX-License-Identifier: Apache-2.0
// The report's sections, in the order of a page: the answer (sections.cpp), charts (sections_results.cpp, with
// sections_steps.cpp), tables (sections_cases.cpp), and what stands behind them (sections_appendix.cpp). They arrange
// rows of the analysis; the sentences are answer.h's. A new section gets a line in make_document().
#pragma once
#include "reports/analysis.h"
#include "reports/document.h"
#include "reports/report.h"

namespace duet::reports {

Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options);

// Under GitHub's limit for a comment, without charts: the answer, the families, the largest gains and losses, steps,
// and what failed.
Document make_summary(const Run& run, const Analysis& analysis);

// Parts of them (sections_*.cpp).
void add_results(const Analysis& analysis, const ReportOptions& options, Document& document);
void add_latencies(const Analysis& analysis, Document& document);
void add_steps(const Analysis& analysis, const ReportOptions& options, Document& document);
void add_case_tables(const Analysis& analysis, Document& document);
void add_missing_section(const Run& run, const Analysis& analysis, Document& document);
void add_appendix(const Run& run, Document& document);
void add_summary(const Run& run, const Analysis& analysis, Document& document);

// The first chart is visible, its continuations are folded.
void add_charts(std::vector<Chart> charts, Section& section);

Table family_table(const std::vector<FamilyTotal>& totals);
Table step_table(const std::vector<StepPairs>& all);

// Share of the roof with its tone.
Span roof_span(const Series& series);
// "18.4× faster" or "CPU 217× faster", and below it the interval, with its label where rows differ.
Cell faster_cell(const Interval& ratio, bool with_label);
std::string unbroken(std::string text);  // with non-breaking spaces

}  // namespace duet::reports
