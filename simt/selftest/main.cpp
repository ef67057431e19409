// SPDX-License-Identifier: Apache-2.0
// simt_selftest: tests the checker. Every planted bug (bugs.cu) must be reported in the words of its class, and no
// repaired version of it, in any order of threads; those in known_misses.txt must not be reported. Every
// synchronisation of every kernel of the product is omitted once (a sync mutant), and the kernel's cases must find each
// of these mutants that is not equivalent. Exit 0 where all holds. --large: see large.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/compare.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/process.h"
#include "core/session.h"
#include "simt/host/executor.h"
#include "simt/host/lines.h"
#include "simt/selftest/bugs.h"
#include "simt/simt.h"

namespace duet {
namespace selftest {
namespace {

using Order = SimtOptions::Order;
constexpr double kMaxCaseAccesses = 2.5e5;  // larger cases are not run
constexpr size_t kMaxCasesOfOp = 16;        // spread over the op's list
constexpr size_t kSmallCases = 3;           // a mutant runs on so many of its smallest cases first,
constexpr size_t kMaxCasesOfMutant = 40;    // then on its largest ones, up to this number in all

std::vector<Bug>& bugs() {
  static std::vector<Bug> list;
  return list;
}

std::unique_ptr<Context> host(const SimtOptions& options) {
  std::string reason;
  return open_simt(reason, options);
}

struct Outcome {
  std::string report;         // empty: none
  std::vector<uint8_t> bits;  // of y and z
};
Outcome run_bug(const Bug& bug, bool fixed, const SimtOptions& options) {
  const std::unique_ptr<Context> context = host(options);
  constexpr int64_t kBytes = kLength * sizeof(float), kCounterBytes = 4 * sizeof(unsigned);
  Buffer x(*context, kBytes, "x", 4), y(*context, kBytes, "y", 4), z(*context, kBytes, "z", 4);
  Buffer counter(*context, kCounterBytes, "counter", 4);
  std::vector<float> ramp(kLength), zeros(kLength);
  for (int i = 0; i < kLength; ++i) ramp[static_cast<size_t>(i)] = static_cast<float>(i) + 0.5f;
  context->upload(x.data(), ramp.data(), kBytes);
  context->upload(y.data(), zeros.data(), kBytes);
  context->upload(counter.data(), zeros.data(), kCounterBytes);
  const Arrays arrays{x.as<float>(), y.as<float>(), z.as<float>(), counter.as<unsigned>(), ramp.data()};
  Outcome outcome;
  try {
    context->enter([&] { bug.run(fixed, arrays); });
  } catch (const simt::host::Report& report) {
    outcome.report = report.what();
  }
  outcome.bits.resize(2 * kBytes);
  context->download(outcome.bits.data(), y.data(), kBytes);
  context->download(outcome.bits.data() + kBytes, z.data(), kBytes);
  return outcome;
}

// known_misses.txt: names of planted bugs that are not reported, and why.
std::map<std::string, std::string> read_known_misses() {
  std::ifstream file(DUET_SOURCE_DIR "/simt/selftest/known_misses.txt");
  if (!file) throw Error("cannot open simt/selftest/known_misses.txt");
  std::map<std::string, std::string> misses;
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find(' ');
    if (line.empty() || line[0] == '#') continue;
    if (end == line.npos) throw Error("known_misses.txt: '{}' has no reason", line);
    misses[line.substr(0, end)] = line.substr(line.find_first_not_of(' ', end));
  }
  return misses;
}

// Whether the list of known misses is true: it has exactly the bugs without a report, and no order shows one of them.
bool misses_are_true(const std::vector<SimtOptions>& orders, bool verbose) {
  std::map<std::string, std::string> misses = read_known_misses();
  size_t listed = 0;
  bool good = true;
  for (const Bug& bug : bugs()) {
    if (bug.expected) continue;
    if (misses.erase(bug.name) == 0) {
      fmt::print("known miss {}: known_misses.txt has no reason\n", bug.name);
      good = false;
    }
    ++listed;
    for (const SimtOptions& order : orders) {
      const Outcome bad = run_bug(bug, false, order);
      if (!bad.report.empty()) {
        fmt::print("known miss {} is found now, remove it from known_misses.txt: {}\n", bug.name, bad.report);
        good = false;
        break;
      }
    }
    if (verbose) fmt::print("{}: known miss\n", bug.name);
  }
  for (const auto& [name, reason] : misses) {
    fmt::print("known_misses.txt: {} is no planted bug without a report\n", name);
    good = false;
  }
  fmt::print("known misses {}, with reasons in known_misses.txt\n", listed);
  return good;
}

bool planted_bugs(bool verbose) {
  size_t found = 0, expected = 0, false_reports = 0;
  std::vector<SimtOptions> orders{{.order = Order::forward}, {.order = Order::reverse}};
  for (uint64_t seed = 1; seed <= 8; ++seed) orders.push_back({.order = Order::shuffled, .seed = seed});
  for (const Bug& bug : bugs()) {
    if (bug.expected) {
      const Outcome bad = run_bug(bug, false, {});
      const bool seen = bad.report.find(bug.expected) != std::string::npos;
      ++expected;
      found += seen;
      if (!seen) fmt::print("missed: {}, expected '{}', got '{}'\n", bug.name, bug.expected, bad.report);
      if (seen && verbose) fmt::print("{}: {}\n", bug.name, bad.report);
    }
    const Outcome first = run_bug(bug, true, orders[0]);
    for (const SimtOptions& order : orders) {
      const Outcome good = run_bug(bug, true, order);
      if (good.report.empty() && good.bits == first.bits) continue;
      ++false_reports;
      fmt::print("false report: {} repaired, order {} seed {}: {}\n", bug.name, static_cast<int>(order.order),
                 order.seed, good.report.empty() ? "another answer" : good.report);
    }
  }
  fmt::print("planted bugs {} of {} found; false reports {}\n", found, expected, false_reports);
  return misses_are_true(orders, verbose) && found == expected && false_reports == 0;
}

// --- mutants --------------------------------------------------------------------------------------------------------

// Inputs and expected outputs of a case, made once.
struct CaseData {
  HostTensors inputs;
  Expected expected;
};
const CaseData& data_of(const Problem& problem) {
  static std::map<std::string, std::unique_ptr<CaseData>> kept;
  auto& data = kept[problem.name() + "/" + problem.label()];
  if (!data) {
    data = std::make_unique<CaseData>();
    data->inputs = draw_inputs(problem, FillMode::values, 7);
    data->expected = Expected::all(problem, data->inputs);
  }
  return *data;
}

struct Job {
  const Implementation* implementation;
  const Problem* problem;
  double accesses;
};

double accesses_of(const Problem& p) { return std::max(p.flops() / 2, static_cast<double>(p.bytes()) / 4); }

// Every output that may have the memory of an input has it.
Placement in_place(const std::vector<TensorSpec>& tensors) {
  Placement placement{.memory_of = std::vector<int>(tensors.size(), -1), .offset_bytes = {}};
  std::vector<int>& taken = placement.memory_of;
  for (size_t s = 0; s < tensors.size(); ++s)
    for (size_t i = 0; i < tensors.size() && taken[s] < 0; ++i)
      if (tensors[s].may_be(tensors[i], i) && std::count(taken.begin(), taken.end(), static_cast<int>(i)) == 0)
        taken[s] = static_cast<int>(i);
  return placement;
}

// Runs the job once: in reverse order outputs take the memory of inputs. The failure: a report or a wrong result; empty
// where there is none.
std::string run_job(const Job& job, const SimtOptions& options) {
  try {
    const std::unique_ptr<Context> context = host(options);
    const CaseData& data = data_of(*job.problem);
    Session session(*job.problem, *job.implementation, *context, data.inputs);
    if (!session.supported()) return "";
    if (options.order == Order::reverse) session.place(in_place(job.problem->tensors()));
    session.restore();
    session.poison_outputs();
    context->enter([&] { session.run(); });
    return session.check(data.expected, false).failure;
  } catch (const Error& error) {  // mostly a Report
    return error.what();
  }
}
constexpr SimtOptions kForward{.order = Order::forward}, kReverse{.order = Order::reverse, .multiprocessors = 1};

// Equivalent mutants: the kernel has the same meaning without this synchronisation, so no test can find the difference.
struct Equivalent {
  const char *kernel, *source, *what, *file, *why;  // file: of the synchronisation
};
constexpr Equivalent kEquivalent[] = {
    {"rows_kernel", "kernels/reduction/sum_tuned.cu", "__syncthreads", "kernels/vector.cuh",
     "the second barrier of block_reduce protects the next use of its array, and there is none"},
    {"softmax_backward_kernel", "kernels/norm/softmax_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"softmax_backward_long_kernel", "kernels/norm/softmax_tuned.cu", "__syncthreads", "kernels/vector.cuh",
     "as above"},
    {"rmsnorm_kernel", "kernels/norm/rmsnorm_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"rmsnorm_long_kernel", "kernels/norm/rmsnorm_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"long_backward_kernel", "kernels/norm/rmsnorm_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"add_norm_kernel", "kernels/norm/add_rmsnorm_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"add_norm_long_kernel", "kernels/norm/add_rmsnorm_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"l2_normalise_kernel", "kernels/norm/l2_normalise_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"l2_normalise_long_kernel", "kernels/norm/l2_normalise_tuned.cu", "__syncthreads", "kernels/vector.cuh",
     "as above"},
    {"l2_backward_kernel", "kernels/norm/l2_normalise_tuned.cu", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"l2_backward_long_kernel", "kernels/norm/l2_normalise_tuned.cu", "__syncthreads", "kernels/vector.cuh",
     "as above"},
    {"pick_kernel", "kernels/elementwise/prune_tuned.cu", "__syncthreads", "kernels/elementwise/prune_tuned.cu",
     "the second barrier of sum_before protects the next use of its array, and there is none"},
    {"ties_kernel", "kernels/elementwise/prune_tuned.cu", "__syncthreads", "kernels/elementwise/prune_tuned.cu",
     "as above"},
};
const Equivalent* find_equivalent(const simt::host::SyncPoint& p) {
  for (const Equivalent& e : kEquivalent)
    if (p.kernel.starts_with(std::string(e.kernel) + " (") && p.kernel.ends_with(std::string(e.source) + ")") &&
        p.what == e.what && p.at.find(e.file) != std::string::npos)
      return &e;
  return nullptr;
}

struct Use {
  Job job;
  SimtOptions options;
};

std::vector<ProblemCase> small_cases(const Op& op) {
  std::vector<ProblemCase> small = op.cases(Scale::test);
  std::erase_if(small, [](const ProblemCase& c) { return accesses_of(c.problem) > kMaxCaseAccesses; });
  return small;
}

// What these implementations do only in cases beyond kMaxCaseAccesses, or in none of their op's.
struct LargeCase {
  const char *op, *text, *implementation;
};
constexpr LargeCase kLargeCases[] = {
    // More tiles than add_up_kernel has threads.
    {"prune", "n:1052673 dtype:bf16 scheme:magnitude w=below:4", "simt.tuned"},
    // A block of a cooperative launch has two groups of sequences.
    {"rnn_tanh", "T:2 B:49 I:1 H:129 dtype:f32", "simt.tuned"},
    {"lstm_backward", "T:2 B:57 I:1 H:129 dtype:bf16", "simt.tuned"},
    // The result goes where the panels of the last step are, which the other warpgroup may still multiply.
    {"conv2d", "n:1 c:128 h:3 w:5 k:16 r:1 s:1 dtype:bf16 layout:nhwc", "simt.tuned"},
    {"conv2d_backward_data", "n:1 c:16 h:3 w:5 k:128 r:1 s:1 dtype:bf16 layout:nhwc", "simt.tuned"},
};

// Runs the implementations of `uses` on each small case of their ops and on the large ones, until one fails.
std::string run_all_cases(const std::vector<Use>& uses) {
  std::set<std::pair<std::string, const Implementation*>> implementations;
  for (const Use& use : uses) implementations.emplace(use.job.problem->name(), use.job.implementation);
  for (const auto& [op, implementation] : implementations)
    for (const ProblemCase& c : small_cases(find_op(op)))
      for (const SimtOptions& options : {kForward, kReverse})
        if (std::string failure = run_job({implementation, &c.problem, 0}, options); !failure.empty()) return failure;
  for (const LargeCase& c : kLargeCases)
    if (const Implementation* i = find_implementation(c.op, c.implementation); implementations.contains({c.op, i})) {
      const Problem problem = parse_case(c.op, c.text);
      if (std::string failure = run_job({i, &problem, 0}, kForward); !failure.empty()) return failure;
    }
  return "";
}

bool sync_mutants(bool verbose) {
  using simt::host::SyncPoint;
  std::vector<ProblemCase> cases;
  for (const auto& [name, op] : ops()) {
    const std::vector<ProblemCase> small = small_cases(op);
    const size_t n = std::min(kMaxCasesOfOp, small.size());
    for (size_t i = 0; i < n; ++i) cases.push_back(small[i * small.size() / n]);
  }
  std::map<SyncPoint, std::vector<Use>> points;
  simt::host::Mutation mutation;
  simt::host::mutation = &mutation;
  size_t reported = 0, jobs = 0;
  for (const ProblemCase& c : cases)
    for (const Implementation* i : implementations(c.problem.name())) {
      if (i->device != Device::simt) continue;
      const Job job{i, &c.problem, accesses_of(c.problem)};
      for (const SimtOptions& options : {kForward, kReverse}) {
        mutation.seen.clear();
        ++jobs;
        if (const std::string failure = run_job(job, options); !failure.empty()) {
          ++reported;
          fmt::print("false report: {}/{}/{}: {}\n", c.problem.name(), i->name, c.problem.label(), failure);
        }
        for (const SyncPoint& p : mutation.seen) points[p].push_back({job, options});
      }
    }
  std::deque<Problem> large;  // jobs refer to them
  for (const LargeCase& c : kLargeCases) {
    const Problem& problem = large.emplace_back(parse_case(c.op, c.text));
    const Job job{find_implementation(c.op, c.implementation), &problem, accesses_of(problem)};
    mutation.seen.clear();
    ++jobs;
    if (const std::string failure = run_job(job, kForward); !failure.empty()) {
      ++reported;
      fmt::print("false report: {}/{}/{}: {}\n", c.op, c.implementation, problem.label(), failure);
    }
    for (const SyncPoint& p : mutation.seen)  // of the others, small cases tell
      if (!points.contains(p)) points[p].push_back({job, kForward});
  }
  size_t found = 0, equivalents = 0;
  for (auto& [point, uses] : points) {
    std::stable_sort(uses.begin(), uses.end(),
                     [](const Use& a, const Use& b) { return a.job.accesses < b.job.accesses; });
    // A few small cases first, then large ones: in the smallest, a loop may run only once.
    std::vector<Use> order;
    for (size_t i = 0; i < std::min(kSmallCases, uses.size()); ++i) order.push_back(uses[i]);
    for (size_t i = uses.size(); i-- > kSmallCases && order.size() < kMaxCasesOfMutant;) order.push_back(uses[i]);
    mutation.omitted = point;
    simt::host::resolve_lines = verbose;  // resolving is slow, and the reports are printed only where verbose
    std::string failure;
    for (const Use& use : order) {
      failure = run_job(use.job, use.options);
      if (!failure.empty()) break;
    }
    const Equivalent* same = failure.empty() ? find_equivalent(point) : nullptr;
    if (failure.empty() && !same) failure = run_all_cases(uses);
    found += !failure.empty();
    if (failure.empty()) {
      equivalents += same != nullptr;
      fmt::print("survives: {} without {} at {}: {}\n", point.kernel, point.what, point.at,
                 same ? same->why : "no case tells the difference");
    }
    if (!failure.empty() && verbose)
      fmt::print("{} without {} at {}: {}\n", point.kernel, point.what, point.at, failure);
  }
  mutation.omitted.reset();
  simt::host::resolve_lines = true;
  simt::host::mutation = nullptr;
  fmt::print(
      "sync mutants {} of {} found, {} equivalent, in every kernel of the product; false reports {} in {} runs\n",
      found, points.size(), equivalents, reported, jobs);
  return reported == 0 && found + equivalents == points.size();
}

// Runs the jobs of these registrations ("softmax_tuned") on every small case: how tools/mutate_kernels tests a mutant.
bool run_jobs_of(const std::vector<std::string>& functions) {
  simt::host::resolve_lines = false;
  for (const auto& [name, op] : ops())
    for (const Implementation* i : implementations(name)) {
      if (i->device != Device::simt) continue;
      const std::string function = name + "_" + i->name.substr(i->name.find('.') + 1);
      if (std::find(functions.begin(), functions.end(), function) == functions.end()) continue;
      for (const ProblemCase& c : op.cases(Scale::test)) {
        if (accesses_of(c.problem) > kMaxCaseAccesses) continue;
        for (const SimtOptions& options : {kForward, kReverse})
          if (const std::string failure = run_job({i, &c.problem, 0}, options); !failure.empty()) {
            fmt::print("{}/{}/{}: {}\n", name, i->name, c.problem.label(), failure);
            return false;
          }
      }
    }
  return true;
}

int run(const std::vector<std::string>& arguments) {
  bool verbose = false, bounds = false, large = false;
  std::string op;  // of --large; empty: all
  if (!arguments.empty() && arguments[0] == "--jobs")
    return run_jobs_of({arguments.begin() + 1, arguments.end()}) ? 0 : 1;
  for (const std::string& a : arguments) {
    if (a == "--verbose") {
      verbose = true;
    } else if (a == "--bounds") {
      bounds = true;
    } else if (a == "--large" || a.starts_with("--large=")) {
      large = true;
      op = a.substr(std::min(a.size(), std::string("--large=").size()));
    } else {
      fmt::print(
          stderr,
          "simt_selftest: {} is neither --verbose (print what was found) nor --large or --large=OP (instead, run "
          "kernels on tensors of more than 2^31 elements) nor --bounds (also compile kernels with shifted bounds: "
          "minutes)\n",
          a);
      return 2;
    }
  }
  std::string reason;
  if (!open_simt(reason)) {
    fmt::print("skipped: {}\n", reason);
    return 77;
  }
  if (large) return large_tensors(verbose, op) ? 0 : 1;
  bool good = planted_bugs(verbose);
  good = sync_mutants(verbose) && good;
  if (bounds)
    good = std::system(DUET_SOURCE_DIR "/tools/mutate_kernels " DUET_BUILD_DIR) == 0 && good;
  else
    fmt::print("bounds mutants: not run (simt_selftest --bounds compiles them: minutes)\n");
  return good ? 0 : 1;
}

}  // namespace

bool plant(const Bug* list, int count) {
  bugs().insert(bugs().end(), list, list + count);
  return true;
}

}  // namespace selftest
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  try {
    return duet::selftest::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "simt_selftest: {}\n", e.what());
    return 2;
  }
}
