// SPDX-License-Identifier: Apache-2.0
// duet list: ops, their implementations (built here or not) and their cases; or what the catalogue has beyond them.
#pragma once
#include <string>

namespace duet {

struct ListOptions {
  std::string filter;              // regular expression, searched in job names as bench_all does
  std::string device = "all";      // cpu, gpu, all
  std::string scale = "standard";  // test, standard, full: whose cases
  bool json = false;
  bool missing = false;  // instead: what of the catalogue is missing
};

int run_list(const ListOptions& options);

}  // namespace duet
