// SPDX-License-Identifier: Apache-2.0
// The report's sections, in the order of a page: the answer (sections.cpp), charts (sections_results.cpp, with
// sections_steps.cpp), tables (sections_cases.cpp), and what stands behind them (sections_appendix.cpp). They arrange
// rows of the analysis; the sentences are answer.h's. A new section gets a line in make_document().
#pragma once
#include "reports/analysis.h"
#include "reports/document.h"
#include "reports/report.h"

namespace duet::reports {

// `files`: of a joined run heads_of() its files (join.h): each has an environment of its own.
Document make_document(const Run& run, const Analysis& analysis, const ReportOptions& options,
                       const std::vector<Run>& files = {});

// Under GitHub's limit for a comment, without charts: the answer, the families, the largest gains and losses, steps,
// and what failed.
Document make_summary(const Run& run, const Analysis& analysis, const std::vector<Run>& files = {});

// Parts of them (sections_*.cpp).
void add_results(const Analysis& analysis, const ReportOptions& options, Document& document);
void add_latencies(const Analysis& analysis, Document& document);
void add_fusions(const Analysis& analysis, Document& document);
void add_libraries(const Analysis& analysis, Document& document);
void add_studies(const Analysis& analysis, Document& document);
void add_steps(const Analysis& analysis, const ReportOptions& options, Document& document);
void add_inferences(const Analysis& analysis, Document& document);
void add_case_tables(const Analysis& analysis, Document& document);
void add_counters(const Run& run, Document& document);
void add_missing_section(const Run& run, const Analysis& analysis, Document& document);
void add_appendix(const Run& run, const std::vector<Run>& files, Document& document);
void add_summary(const Run& run, const Analysis& analysis, Document& document);

// The first chart is visible, its continuations are folded.
void add_charts(std::vector<Chart> charts, Section& section);

Table family_table(const std::vector<FamilyTotal>& totals);
Table step_table(const std::vector<StepPairs>& all, Kind kind);

// Share of the roof with its tone.
Span roof_span(const Series& series);
// "18.4× faster", "CPU 217× faster" or "1.01×, level", with its tone.
Span outcome_span(const Interval& ratio);
// The same, and below it the interval, with its label where rows differ.
Cell faster_cell(const Interval& ratio, bool with_label);
std::string unbroken(std::string text);  // with non-breaking spaces

}  // namespace duet::reports
