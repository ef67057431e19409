// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <fmt/chrono.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

#include "core/command_line.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/name_filter.h"
#include "core/regular_file.h"

namespace duet::bench {

const char* const kWorkerOption = "--worker";

const char* name_of(Preset p) {
  constexpr const char* names[] = {"smoke", "quick", "sweep", "standard", "full"};
  return names[static_cast<int>(p)];
}

int Options::repetitions_or_default() const {
  if (repetitions) return *repetitions;
  return preset == Preset::smoke ? 1 : preset <= Preset::sweep ? 3 : 5;
}
double Options::budget_s() const {
  if (min_time_s) return *min_time_s;
  return preset == Preset::smoke ? 0.005 : preset <= Preset::sweep ? 0.02 : 0.5;
}

namespace {

constexpr int kProfileRuns = 10;

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

// "gemm m:4096 n:512", "gemm/f32/m:4096/n:512", "step/mlp batch:32", "infer/mlp batch:1" or "study/transfer n:1024".
NamedCase named_case(std::string_view line, std::string source) {
  constexpr std::string_view kBlanks = " \t\r", kSeparators = " \t\r/";
  constexpr std::string_view kFolders[] = {"step/", "infer/", "study/"};
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(kBlanks)));
  line.remove_suffix(line.size() - std::min(line.size(), line.find_last_not_of(kBlanks) + 1));
  size_t begin = 0;
  for (const std::string_view folder : kFolders)
    if (line.starts_with(folder)) begin = folder.size();
  const size_t end = line.find_first_of(kSeparators, begin);
  const std::string_view op = line.substr(0, end);
  if (op.empty()) throw Error("{}: an op is expected, then its attributes: 'softmax rows:64 cols:1000'", source);
  return {std::string(op), end == line.npos ? "" : std::string(line.substr(end + 1)), std::move(source)};
}

std::string is_regex(const std::string& text) {
  try {
    NameFilter check(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string is_gpu_choice(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (number || text.starts_with("GPU-") || text.starts_with("MIG-")) return "";
  return fmt::format("'{}' is neither a number nor a UUID such as GPU-8f6..., as nvidia-smi -L prints them", text);
}

// Not by CLI::Range, which lets NaN pass.
CLI::Validator seconds(double min, double max) {
  return {[min, max](std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return std::string();
            return fmt::format("Value {} not in range {} to {}", text, min, max);
          },
          "FLOAT"};
}

CLI::Validator whole_number(int64_t min, int64_t max) {
  return {[min, max](std::string& text) { return check_whole_number(text, min, max); }, "INT"};
}

}  // namespace

std::vector<NamedCase> read_named_cases(const std::vector<std::string>& values) {
  std::vector<NamedCase> cases;
  for (const std::string& value : values) {
    if (!value.starts_with('@')) {
      cases.push_back(named_case(value, "--case"));
      continue;
    }
    const std::string path = value.substr(1);
    RegularFile file(path);
    int number = 0;
    for (std::string line; std::getline(file.stream, line);) {
      ++number;
      line.resize(std::min(line.size(), line.find('#')));
      if (line.find_first_not_of(" \t\r") != line.npos)
        cases.push_back(named_case(line, fmt::format("{}:{}", path, number)));
    }
  }
  return cases;
}

std::string default_result_path() {
  return fmt::format("out/bench_{:%Y%m%d-%H%M%S}.json", fmt::gmtime(std::time(nullptr)));
}

std::optional<int> parse(int argc, char** argv, Options& options) {
  std::copy_if(argv, argv + argc, std::back_inserter(options.argv),
               [](const std::string& a) { return !a.starts_with(kWorkerOption); });
  CLI::App app{"Times every op of Duet on the CPU and the GPU, side by side, and verifies the buffers it timed.",
               "bench_all"};
  std::string preset = name_of(options.preset), device = "all";
  std::vector<std::string> json, cases;
  std::vector<int> profile;
  std::vector<std::string> dtypes;
  for (const DType t : kDTypes) dtypes.emplace_back(name_of(t));
  CLI::Option* json_option =
      app.add_option("--json", json,
                     "write the run file here (default out/bench_DATE.json); alone or '-': to standard output")
          ->expected(0, 1);
  app.add_flag("--list", options.list, "list the jobs that would run (with --json: as JSON) and stop");
  app.add_option("--case", cases,
                 "only this case, in place of the preset's: 'gemm m:4096 n:512 k:8192 dtype:bf16', 'step/mlp "
                 "batch:32', 'infer/mlp batch:1'; "
                 "@FILE: one a line, # comments. May be repeated; the other selections apply to it")
      ->expected(1)
      ->take_all();
  app.add_option("--filter", options.filter, "only jobs whose name contains a match of this regular expression")
      ->check(is_regex);
  app.add_option("--exclude", options.exclude, "not the jobs whose name contains a match of this regular expression")
      ->check(is_regex);
  app.add_option("--scale", preset,
                 "preset. smoke: cheapest case, one repetition; quick: warm, all threads, few cases and small models "
                 "(default; all of a study with --filter '^study/', all models with '^step/' or '^infer/'); "
                 "sweep: one size over its range, for break-evens; standard: published shapes; full: all of them")
      ->check(CLI::IsMember({"smoke", "quick", "sweep", "standard", "full"}));
  app.add_option("--device", device, "cpu, gpu or all (default)")->check(CLI::IsMember({"cpu", "gpu", "all"}));
  app.add_option("--gpu", options.gpu_choice, "which of several GPUs: its number in nvidia-smi, or its UUID")
      ->check(is_gpu_choice);
  app.add_option("--impl", options.implementations, "only these implementations, such as cpu.tuned")->delimiter(',');
  app.add_option("--dtype", options.dtypes, "only these element types, such as bf16 or f8e4m3")
      ->delimiter(',')
      ->check(CLI::IsMember(dtypes));
  app.add_option("--scope", options.scopes, "only these scopes: kernel call end_to_end overlapped")
      ->delimiter(',')
      ->check(CLI::IsMember({"kernel", "call", "end_to_end", "overlapped"}));
  std::string choose = "measured";
  app.add_option("--choose", choose,
                 "implementations of the ops of a training step or an inference: the fastest of all, measured before "
                 "(default), or the first in an order of preference")
      ->check(CLI::IsMember({"order", "measured"}));
  app.add_option("--threads", options.threads,
                 "CPU threads (default: all that affinity and quota leave; from standard on also one)")
      ->transform(whole_number(1, INT_MAX));
  app.add_option("--seed", options.seed, "of inputs, sampled slices and the order of cases (default 1)")
      ->transform(whole_number(0, INT64_MAX));
  app.add_option("--repetitions", options.repetitions, "repetitions of each series (default 1, 3 or 5 by preset)")
      ->transform(whole_number(1, 1000));
  app.add_option("--min-time", options.min_time_s,
                 "seconds of samples in a repetition (default 0.005, 0.02 or 0.5); at most 100 samples are planned to "
                 "fill it")
      ->check(seconds(1e-6, 3600.0));
  app.add_flag("--resume", options.resume, "go on from the journal beside --json=FILE")->needs(json_option);
  CLI::Option* in_process_option =
      app.add_flag("--in-process", options.in_process,
                   "measure in this process, for debuggers and profilers: a job that crashes then ends the run");
  app.add_flag("--times-only", options.times_only, "measure no ceilings: faster, but rows have no share of a roof");
  CLI::Option* processes_option =
      app.add_option("--processes", options.processes,
                     "repeat the run in so many fresh processes; intervals then cover them (default 1)")
          ->transform(whole_number(1, 100))
          ->excludes(in_process_option);
  CLI::Option* aa_option =
      app.add_option("--aa", options.aa,
                     "repeat the run in so many fresh processes, and write how much each row differs between them, by "
                     "machine (--noise): duet gate calls no smaller shift a difference")
          ->transform(whole_number(3, 100))
          ->excludes(in_process_option)
          ->excludes(processes_option);
  app.add_option("--noise", options.noise, "file for --aa (default out/noise.json); rows of other runs in it stay")
      ->needs(aa_option);
  app.add_flag(
      "--counters", options.counters,
      "also measure memory traffic, energy, instructions and cycles of each job, in a window of 2 s of its own after "
      "the case's times; what this machine does not count is unavailable, with the reason (duet doctor lists it)");
  app.add_option("--job-limit", options.job_limit_s,
                 "seconds without progress after which a job counts as hung (default: by its own calibration)")
      ->check(seconds(0.1, 1e6));
  app.add_flag(
      "--count-instructions", options.count_instructions,
      "time nothing: count the instructions of one application of each op on the CPU, one thread, by the processor "
      "(perf) where it is allowed, else by valgrind; --json is a list of them. Equal programs give equal counts");
  app.add_option("--trace", options.trace,
                 "also write a timeline of jobs and phases to this file, for ui.perfetto.dev or chrome://tracing; it "
                 "needs no profiler");
  app.add_option("--profile", profile,
                 "time nothing: apply each selected series N times (default 10) after 3 applications to warm up, for a "
                 "profiler that started this program; it captures from cudaProfilerStart to cudaProfilerStop "
                 "(docs/profiling.md; duet profile does all of it)")
      ->expected(0, 1)
      ->transform(whole_number(1, 1000000))
      ->excludes(processes_option)
      ->excludes(aa_option);
  app.add_option("--perf-control", options.perf_control)->group("");    // of duet profile
  app.add_option("--counting-into", options.counting_into)->group("");  // of the process that valgrind runs
  app.add_option(kWorkerOption, options.worker)->group("");             // of the supervisor alone: not in --help
  app.set_version_flag("--version", version_text("bench_all"));
  app.footer(
      "Exit status: 0 all jobs that could run are ok; 1 a job failed; 2 an option, file or value cannot be used; 77 "
      "nothing could be measured; 130 interrupted (--resume goes on).");
  try {
    std::vector<std::string> args = translate(argc, argv);
    std::reverse(args.begin(), args.end());
    try {
      app.parse(args);
    } catch (const CLI::Success& asked) {  // --help, --version
      return app.exit(asked);
    }
    if (app.count("--json")) options.json = json.empty() ? "" : json.front();
    if (app.count("--profile")) options.profile = profile.empty() ? kProfileRuns : profile.front();
    if (options.profile) {
      for (const char* other :
           {"--json", "--resume", "--count-instructions", "--counters", "--repetitions", "--min-time"})
        if (app.count(other))
          throw Error("--profile measures nothing, since a profiler changes it: it goes without {}", other);
      options.in_process = true;
    }
    if (!options.json && !options.list && !options.profile) options.json = default_result_path();
    if (options.trace && options.trace->empty()) throw Error("--trace needs the name of a file");
    if (options.trace && options.json && *options.trace == *options.json)
      throw Error("--trace and --json name one file, '{}': a file of its own for each", *options.trace);
    for (const char* other : {"--count-instructions", "--aa"})  // one has no times, the other several processes alike
      if (options.counters && app.count(other)) throw Error("--counters goes without {}", other);
    if (options.trace && options.count_instructions) throw Error("--trace goes without --count-instructions");
    for (const Preset p : {Preset::smoke, Preset::quick, Preset::sweep, Preset::standard, Preset::full})
      if (preset == name_of(p)) options.preset = p;
    if (options.aa) options.processes = *options.aa;
    options.measured_choice = choose == "measured";
    options.cpu = device != "gpu";
    options.gpu = device != "cpu";
    if (options.gpu_choice && !options.gpu) throw Error("--gpu {} goes without --device cpu", *options.gpu_choice);
    if (options.gpu_choice) {  // for CUDA, and in the worker's environment; before CUDA's first call
      setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
      setenv("CUDA_VISIBLE_DEVICES", options.gpu_choice->c_str(), 1);
    }
    options.cases = read_named_cases(cases);
    if (!cases.empty() && options.cases.empty()) throw Error("--case {}: holds no case", cases.front());
    if (options.resume && options.json_to_stdout())
      throw Error("--resume needs --json=FILE: the journal lies beside it");
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "bench_all: %s (see --help)\n", one_line(e.what()).c_str());
    return 2;
  } catch (const Error& e) {
    std::fprintf(stderr, "bench_all: %s\n", one_line(e.what()).c_str());
    return 2;
  }
  return std::nullopt;
}

}  // namespace duet::bench
