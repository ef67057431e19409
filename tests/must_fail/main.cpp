// SPDX-License-Identifier: Apache-2.0
// Every case of the registry against wrong results: each must be refused, or stands in degenerate.txt with its reason.
// An entry of that list that is not needed is an error as well.
//   duet_must_fail_tests [--all] [--shard I/N] [--filter REGEX] [--max-mb N] [--list] [--bounds]
// Without --all only cases are examined that take little time, as the tests do, four of each study, and no sweeps.
// --list prints what was not refused and succeeds. --bounds compares bounds with the errors of correct implementations
// instead. Cases beyond --max-mb (600) are sampled: the first one of each op; and so are those whose references take
// minutes, such as a recurrent layer of 2048 units over its steps: the cheapest one of each op. The others are counted.
#include <fnmatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "cli/bounds.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/op_traits.h"
#include "core/process.h"
#include "tests/must_fail/faults.h"

namespace duet::must_fail {
namespace {

constexpr size_t kMaxStudyCases = 4;    // of an op of the studies, without --all
constexpr double kMaxCheapWork = 3e7;   // bytes drawn and operations of the reference, without --all
constexpr double kMaxBoundsWork = 5e6;  // of --bounds
constexpr int64_t kMaxLargeBytes = int64_t{3} << 30;

struct Options {
  bool all = false, list = false, bounds = false;
  int shard = 0, shards = 1;
  int64_t max_bytes = 600'000'000;
  std::string filter = ".";
};

// A line of degenerate.txt: "op output fault label  # reason". The label may have the wildcards of file names.
struct Degenerate {
  std::string op, output, fault, label, reason;
  int needed = 0;  // findings that it covers
  bool covers(const Problem& problem, const std::string& of_output, const std::string& of_fault) const {
    return op == problem.name() && output == of_output && fault == of_fault &&
           fnmatch(label.c_str(), problem.label().c_str(), 0) == 0;
  }
};

std::vector<Degenerate> read_degenerate() {
  const std::string path = DUET_SOURCE_DIR "/tests/must_fail/degenerate.txt";
  std::ifstream file(path);
  if (!file) throw Error("{} cannot be read", path);
  std::vector<Degenerate> list;
  for (std::string line; std::getline(file, line);) {
    const size_t mark = line.find('#');
    std::istringstream words(line.substr(0, mark));
    Degenerate d;
    if (!(words >> d.op)) continue;
    if (!(words >> d.output >> d.fault >> d.label) || mark == line.npos)
      throw Error("{}: '{}' does not read: op output fault label # reason", path, line);
    list.push_back(d);
  }
  return list;
}

struct Planned {
  Problem problem;
  double work;
};

// left_out: cases that are too long or too large, but for the samples.
std::vector<Planned> cases_of(const Options& options, int64_t& left_out) {
  std::vector<Planned> planned;
  const std::regex filter(options.filter);
  for (const auto& [name, op] : ops()) {
    std::set<std::string> labels;
    bool large = false;
    std::optional<Planned> cheapest_long;
    std::vector<Scale> scales{Scale::standard, Scale::full};
    if (options.all) scales.push_back(Scale::sweep);
    for (const Scale scale : scales)
      for (const ProblemCase& c : op.cases(scale)) {
        const std::string label = c.problem.label();
        if (!labels.insert(label).second || !std::regex_search(name + "/" + label, filter)) continue;
        // The cases of a study are mostly the same data, moved in other ways: a few are enough for each test run.
        if (!options.all && name.starts_with(kStudy) && labels.size() > kMaxStudyCases) continue;
        const double work = compared_work(c.problem);
        if (work > (options.all ? kMaxComparedWork : kMaxCheapWork)) {
          ++left_out;
          if (c.problem.footprint_bytes() <= options.max_bytes && (!cheapest_long || work < cheapest_long->work))
            cheapest_long = {c.problem, work};
          continue;
        }
        if (c.problem.footprint_bytes() > options.max_bytes) {
          if (large || c.problem.footprint_bytes() > kMaxLargeBytes) {
            ++left_out;
            continue;
          }
          large = true;
        }
        planned.push_back({c.problem, work});
      }
    if (options.all && cheapest_long) {
      planned.push_back(*cheapest_long);
      --left_out;
    }
  }
  std::stable_sort(planned.begin(), planned.end(), [](const Planned& a, const Planned& b) { return a.work > b.work; });
  std::vector<Planned> mine;
  for (size_t i = static_cast<size_t>(options.shard); i < planned.size(); i += static_cast<size_t>(options.shards))
    mine.push_back(planned[i]);
  return mine;
}

int run(const Options& options) {
  std::vector<Degenerate> known = read_degenerate();
  int64_t faults = 0, errors = 0, excused = 0;
  const auto report = [&](const Problem& problem, const std::vector<Finding>& findings) {
    for (const Finding& f : findings) {
      const auto covers = [&](const Degenerate& d) { return d.covers(problem, f.output, f.fault); };
      const auto entry = std::find_if(known.begin(), known.end(), covers);
      if (entry != known.end() && !options.list) {
        ++entry->needed;
        ++excused;
        continue;
      }
      ++errors;
      fmt::print("{} {} {} {}: {}\n", problem.name(), f.output, f.fault, problem.label(), f.detail);
    }
  };
  int64_t left_out = 0;
  const std::vector<Planned> planned = cases_of(options, left_out);
  for (const Planned& c : planned) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Finding> findings = examine(c.problem, faults);
    report(c.problem, findings);
    if (options.list) {
      const double time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      fmt::print(stderr, "{:8.3f} s {:9.3g} work {}/{}\n", time_s, c.work, c.problem.name(), c.problem.label());
    }
    // An entry has to be needed by every case that it names.
    for (const Degenerate& d : known)
      for (const TensorSpec& t : c.problem.tensors())
        if (!options.list && d.covers(c.problem, t.name, d.fault) &&
            std::none_of(findings.begin(), findings.end(),
                         [&](const Finding& f) { return f.output == d.output && f.fault == d.fault; })) {
          ++errors;
          fmt::print("degenerate.txt: '{} {} {} {}' is not needed by {}\n", d.op, d.output, d.fault, d.label,
                     c.problem.label());
        }
  }
  // Of each op the cheapest of these cases as cpu.tuned computes it, through a Session. Libraries may be refused: some
  // add up more terms in one chain than ops/summation.h allows.
  CpuContext cpu(1);
  std::set<std::string> tried;
  for (auto c = planned.rbegin(); c != planned.rend(); ++c)
    for (const Implementation* i : implementations(c->problem.name())) {
      if (i->name != "cpu.tuned" || c->problem.dtype() != DType::f32 || !tried.insert(c->problem.name()).second)
        continue;
      report(c->problem, examine_implementation(c->problem, *i, cpu, faults));
    }
  if (options.all && options.shards == 1 && options.filter == "." && !options.list)
    for (const Degenerate& d : known)
      if (d.needed == 0) {
        ++errors;
        fmt::print("degenerate.txt: '{} {} {} {}' names no case\n", d.op, d.output, d.fault, d.label);
      }
  fmt::print("{} cases, {} faults: {} not refused for a known reason, {} errors; {} long cases left out{}\n",
             planned.size(), faults, excused, errors, left_out, options.all ? "" : ", --all takes most of them");
  if (planned.empty()) throw Error("no case was examined");
  return errors == 0 || options.list ? 0 : 1;
}

// Bounds against the errors of correct implementations, by the rule of cli/bounds.h, on cases that cost little.
int run_bounds(const Options& options) {
  CpuContext cpu(1);
  std::vector<BoundUse> uses;
  int64_t left_out = 0, errors = 0;
  for (const Planned& c : cases_of(options, left_out)) {
    if (c.work > kMaxBoundsWork) continue;
    for (BoundUse& use : bound_uses(c.problem, cpu)) uses.push_back(std::move(use));
  }
  const std::vector<double> loose = looseness(uses);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!too_wide(uses[i], loose[i])) continue;
    ++errors;
    fmt::print("{} {} {}: the bound is {:.3g} times the largest error of a correct implementation\n", uses[i].op,
               uses[i].output, uses[i].label, loose[i]);
  }
  fmt::print("{} bounds, {} of them more than {:g} times the largest error, or more than their reason allows\n",
             uses.size(), errors, kMaxLooseness);
  if (uses.empty()) throw Error("no case was examined");
  return errors == 0 ? 0 : 1;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--all") {
      o.all = true;
    } else if (arg == "--bounds") {
      o.bounds = true;
    } else if (arg == "--list") {
      o.list = true;
    } else if (i + 1 < argc && arg == "--filter") {
      o.filter = argv[++i];
    } else if (i + 1 < argc && arg == "--max-mb") {
      o.max_bytes = std::strtoll(argv[++i], nullptr, 10) * 1'000'000;
    } else if (i + 1 < argc && arg == "--shard" && std::strchr(argv[i + 1], '/')) {
      o.shard = std::atoi(argv[++i]);
      o.shards = std::max(1, std::atoi(std::strchr(argv[i], '/') + 1));
    } else {
      throw Error("unknown argument {}; --all --shard I/N --filter REGEX --max-mb N --list --bounds are known", arg);
    }
  }
  return o;
}

}  // namespace
}  // namespace duet::must_fail

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  try {
    const duet::must_fail::Options options = duet::must_fail::parse(argc, argv);
    return options.bounds ? duet::must_fail::run_bounds(options) : duet::must_fail::run(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "duet_must_fail_tests: {}\n", e.what());
    return 2;
  }
}
