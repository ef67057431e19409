// SPDX-License-Identifier: Apache-2.0
// duet export: a run in the format of another tool.
#pragma once
#include <string>

namespace duet {

struct ExportOptions {
  std::string run_file, format;
  std::string out;  // standard output where it is empty
};

int run_export(const ExportOptions& options);
std::string export_format_list();  // "gbench (Google Benchmark's compare.py), ..."

}  // namespace duet
