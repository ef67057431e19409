// SPDX-License-Identifier: Apache-2.0
// duet compare: two run files, or files of Google Benchmark, row by row. Called by main.cpp.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace duet {

struct CompareOptions {
  std::string base, head;
  std::string metric = "time";       // or speedup
  std::vector<std::string> allowed;  // keys that may differ
  double threshold = 3;              // per cent
  std::string json, markdown;        // files; "-": standard output in place of the table
  bool all = false, fail_on_slower = false;
};

// Returns 0, kIncomparable, or with fail_on_slower kFailed or kLost. Throws Error on files that cannot be used.
int run_compare(const CompareOptions& options);

void add_compare(CLI::App& app);  // declares the subcommand

}  // namespace duet
