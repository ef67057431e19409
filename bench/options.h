// SPDX-License-Identifier: Apache-2.0
// What bench_all was asked to do.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace duet::bench {

enum class Size : uint8_t { smoke, quick, standard, full };  // --scale
const char* name_of(Size);

struct Options {
  Size size = Size::quick;
  std::optional<std::string> json;  // "" or "-": standard output
  bool list = false, resume = false, cpu = true, gpu = true;
  std::string filter;                                        // regular expression over job names; empty: everything
  std::vector<std::string> implementations, dtypes, scopes;  // empty: all
  std::optional<int> threads;  // empty: all cores, and one thread beside it from standard on
  uint64_t seed = 1;
  std::optional<int> repetitions;
  std::optional<double> min_time_s;  // budget of one repetition
  std::vector<std::string> argv;

  bool json_to_stdout() const { return json && (json->empty() || *json == "-"); }
  int repetitions_or_default() const;
  double budget_s() const;
};

// Parses the command line; --benchmark_{filter,list_tests,out,out_format,repetitions,min_time} map onto our options, any
// other --benchmark_* is refused by name. Returns an exit status when the program is done (--help, a usage error).
std::optional<int> parse(int argc, char** argv, Options& options);

}  // namespace duet::bench
