// SPDX-License-Identifier: Apache-2.0
// duet explain: what a run says of one case: what bounds each side, how far it is from that, and what would change who
// wins. One paragraph and one table a case; every word comes from the run file. Called by main.cpp.
#pragma once
#include <string>

#include "results/run.h"

namespace duet {

struct ExplainOptions {
  std::string what;      // the name of a job, or a regular expression over the names of jobs
  std::string run_file;  // or a journal
};
// Returns an exit status. Throws Error where nothing matches.
int run_explain(const ExplainOptions& options);

std::string explanation(const results::Run& run, const std::string& what);  // what run_explain() prints

}  // namespace duet
