// SPDX-License-Identifier: Apache-2.0
// The interface of reports: a run file in, a report out.
#pragma once
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::reports {

struct ReportOptions {
  std::string title = "Duet: CPU and GPU, side by side";
  size_t rows_per_chart = 40;  // longer charts are continued in further, folded ones
  bool markdown = true, html = true, csv = true;
};

// Writes report.md with its charts (*.svg), summary.md for a pull request, report.html and report.csv into
// `directory`, which is created where it is missing. `run_file`: a run file or a journal. All files appear complete or
// not at all: everything is rendered first, written beside its place, then renamed. Throws Error on a bad run file,
// std::runtime_error where it cannot write.
void write_report(const std::string& run_file, const std::string& directory, const ReportOptions& options = {});
// Of several runs, joined by case and labelled by machine (join.h).
void write_report(const std::vector<std::string>& run_files, const std::string& directory,
                  const ReportOptions& options = {});
results::Run load_runs(const std::vector<std::string>& run_files);  // at least one

// What a terminal shows after a run: the speedups, or, where no GPU was measured, each CPU time with its share of the
// roof and the line "GPU: not measured (reason)". Its last paragraph is the answer (answer.h). Ends with a newline.
std::string console_table(const results::Run& run);

}  // namespace duet::reports
