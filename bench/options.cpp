// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <regex>

#include "core/dtype.h"
#include "core/error.h"

namespace duet::bench {

const char* name_of(Size s) {
  constexpr const char* names[] = {"smoke", "quick", "standard", "full"};
  return names[static_cast<int>(s)];
}

int Options::repetitions_or_default() const {
  if (repetitions) return *repetitions;
  return size == Size::smoke ? 1 : size == Size::quick ? 3 : 5;
}
double Options::budget_s() const {
  if (min_time_s) return *min_time_s;
  return size == Size::smoke ? 0.02 : size == Size::quick ? 0.1 : 0.5;
}

namespace {

// Google Benchmark's own flags, as its users know them, in our words.
std::vector<std::string> translate(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--benchmark_", 0) != 0) {
      out.push_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(0, equals), value = equals == arg.npos ? "" : arg.substr(equals + 1);
    static const std::map<std::string, std::string> known{{"--benchmark_filter", "--filter"},
                                                          {"--benchmark_out", "--json"},
                                                          {"--benchmark_repetitions", "--repetitions"},
                                                          {"--benchmark_min_time", "--min-time"}};
    if (const auto at = known.find(name); at != known.end()) {
      if (equals == arg.npos) throw Error("{} needs a value: {}=VALUE", name, name);
      out.push_back(
          at->second + "=" +
          (name == "--benchmark_min_time" && value.ends_with('s') ? value.substr(0, value.size() - 1) : value));
    } else if (name == "--benchmark_list_tests") {
      if (value != "false") out.emplace_back("--list");
    } else if (name == "--benchmark_out_format") {
      if (value != "json") throw Error("{} '{}': only json is written; `duet report` makes tables of it", name, value);
    } else {
      throw Error(
          "{} is not supported; of Google Benchmark's flags, --benchmark_{{filter,list_tests,out,out_format,"
          "repetitions,min_time}} are",
          name);
    }
  }
  return out;
}

void require_one_of(const char* flag, const std::vector<std::string>& values, const std::vector<std::string>& allowed) {
  for (const std::string& v : values)
    if (std::find(allowed.begin(), allowed.end(), v) == allowed.end())
      throw Error("{} '{}' is not one of {}", flag, v, CLI::detail::join(allowed, " "));
}

}  // namespace

std::optional<int> parse(int argc, char** argv, Options& options) {
  options.argv.assign(argv, argv + argc);
  CLI::App app{"Times every operation of Duet on the CPU and the GPU, side by side, and verifies the buffers it timed.",
               "bench_all"};
  std::string size = "quick", device = "all";
  std::vector<std::string> json;
  app.add_option("--json", json, "write the run file here; alone or '-': to standard output")->expected(0, 1);
  app.add_flag("--list", options.list, "list the jobs that would run (with --json: as JSON) and stop");
  app.add_option("--filter", options.filter, "only jobs whose name contains a match of this regular expression");
  app.add_option("--scale", size,
                 "smoke: cheapest case, one repetition; quick: warm, all threads, few cases (default); "
                 "standard: published shapes; full: everything");
  app.add_option("--device", device, "cpu, gpu or all (default)");
  app.add_option("--impl", options.implementations, "only these implementations, such as cpu.tuned")->delimiter(',');
  app.add_option("--dtype", options.dtypes, "only these element types: f32 bf16 f16")->delimiter(',');
  app.add_option("--scope", options.scopes, "only these scopes: kernel call end_to_end")->delimiter(',');
  app.add_option("--threads", options.threads, "CPU threads (default: all cores; from standard on also one)");
  app.add_option("--seed", options.seed, "of inputs, sampled slices and the order of cases (default 1)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--repetitions", options.repetitions, "repetitions of each series (default 1, 3 or 5 by scale)");
  app.add_option("--min-time", options.min_time_s, "seconds of samples in a repetition (default 0.02, 0.1 or 0.5)");
  app.add_flag("--resume", options.resume, "go on from the journal beside --json=FILE");
  try {
    std::vector<std::string> args = translate(argc, argv);
    std::reverse(args.begin(), args.end());
    try {
      app.parse(args);
    } catch (const CLI::CallForHelp& help) {
      return app.exit(help);
    }
    if (app.count("--json")) options.json = json.empty() ? "" : json.front();
    const std::vector<std::string> sizes{"smoke", "quick", "standard", "full"};
    require_one_of("--scale", {size}, sizes);
    options.size = static_cast<Size>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin());
    require_one_of("--device", {device}, {"cpu", "gpu", "all"});
    options.cpu = device != "gpu";
    options.gpu = device != "cpu";
    require_one_of("--scope", options.scopes, {"kernel", "call", "end_to_end"});
    for (const std::string& t : options.dtypes) dtype_from(t);
    if (options.repetitions && (*options.repetitions < 1 || *options.repetitions > 1000))
      throw Error("--repetitions {} is not within 1 .. 1000", *options.repetitions);
    if (options.min_time_s && !(*options.min_time_s > 0 && *options.min_time_s <= 3600))
      throw Error("--min-time {} is not within 0 .. 3600 s", *options.min_time_s);
    if (options.resume && (!options.json || options.json_to_stdout()))
      throw Error("--resume needs --json=FILE: the journal lies beside it");
    try {
      std::regex check(options.filter);
    } catch (const std::regex_error& e) {
      throw Error("--filter '{}' is not a regular expression: {}", options.filter, e.what());
    }
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "bench_all: %s (see --help)\n", e.what());
    return 2;
  } catch (const Error& e) {
    std::fprintf(stderr, "bench_all: %s\n", e.what());
    return 2;
  }
  return std::nullopt;
}

}  // namespace duet::bench
