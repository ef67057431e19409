// SPDX-License-Identifier: Apache-2.0
// simt_selftest: does the checker find what it is for? Every planted bug has to be reported in the words of its class, no
// repaired twin may be, in any order; and every synchronisation of every kernel of the product is left out once.
// Exit 0 where the floors are kept.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
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
constexpr double kSyncFloor = 0.95;     // of the mutants of shipped kernels
constexpr double kLongestCase = 2.5e5;  // accesses: a mutant is tried on cases up to here
constexpr size_t kCasesOfAKernel = 16;  // spread over its list
constexpr size_t kCasesFirst = 3, kCasesAtMost = 40;

std::vector<Bug>& bugs() {
  static std::vector<Bug> list;
  return list;
}

std::unique_ptr<Context> host(const SimtOptions& options) {
  std::string reason;
  return open_simt(reason, options);
}

struct Outcome {
  std::string report;  // empty: none
  std::vector<uint8_t> bits;
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

bool planted_bugs(bool verbose) {
  size_t found = 0, false_reports = 0;
  std::vector<SimtOptions> orders{{.order = Order::forward}, {.order = Order::reverse}};
  for (uint64_t seed = 1; seed <= 8; ++seed) orders.push_back({.order = Order::shuffled, .seed = seed});
  for (const Bug& bug : bugs()) {
    const Outcome bad = run_bug(bug, false, {});
    const bool seen = bad.report.find(bug.expected) != std::string::npos;
    found += seen;
    if (!seen) fmt::print("missed: {}, expected '{}', got '{}'\n", bug.name, bug.expected, bad.report);
    if (seen && verbose) fmt::print("{}: {}\n", bug.name, bad.report);
    const Outcome first = run_bug(bug, true, orders[0]);
    for (const SimtOptions& order : orders) {
      const Outcome good = run_bug(bug, true, order);
      if (good.report.empty() && good.bits == first.bits) continue;
      ++false_reports;
      fmt::print("false report: {} repaired, order {} seed {}: {}\n", bug.name, static_cast<int>(order.order),
                 order.seed, good.report.empty() ? "another answer" : good.report);
    }
  }
  fmt::print("planted bugs {} of {} found; false reports {}\n", found, bugs().size(), false_reports);
  return found == bugs().size() && false_reports == 0;
}

// --- mutants -----------------------------------------------------------------------------------------------------------

// Inputs and answer of a case, made once.
struct Truth {
  HostTensors inputs;
  Expected expected;
};
const Truth& truth_of(const Problem& problem) {
  static std::map<std::string, std::unique_ptr<Truth>> kept;
  auto& truth = kept[problem.name() + "/" + problem.label()];
  if (!truth) {
    truth = std::make_unique<Truth>();
    truth->inputs = draw_inputs(problem, FillMode::values, 7);
    truth->expected = Expected::all(problem, truth->inputs);
  }
  return *truth;
}

struct Job {
  const Implementation* implementation;
  const Problem* problem;
  double accesses;
};

double accesses_of(const Problem& p) { return std::max(p.flops() / 2, static_cast<double>(p.bytes()) / 4); }

// Empty: right, and no report.
std::string judge(const Job& job, const SimtOptions& options) {
  try {
    const std::unique_ptr<Context> context = host(options);
    const Truth& truth = truth_of(*job.problem);
    Session session(*job.problem, *job.implementation, *context, truth.inputs);
    if (!session.supported()) return "";
    session.restore();
    session.poison_outputs();
    context->enter([&] { session.run(); });
    return session.check(truth.expected, false).failure;
  } catch (const Error& error) {  // a report, most of all
    return error.what();
  }
}
constexpr SimtOptions kForward{.order = Order::forward}, kReverse{.order = Order::reverse, .multiprocessors = 1};

// Programs that mean the same without it: of a kernel's name, what is left out, and why nothing can be found.
struct Equal {
  const char *kernel, *what, *file, *why;
};
constexpr Equal kEqual[] = {
    {"rows_kernel (kernels/reduction/sum_tuned.cu)", "__syncthreads", "kernels/vector.cuh",
     "block_reduce's second barrier frees its array for the next use, and there is none"},
    {"softmax_backward_kernel (kernels/norm/softmax_tuned.cu)", "__syncthreads", "kernels/vector.cuh", "as above"},
    {"softmax_backward_long_kernel (kernels/norm/softmax_tuned.cu)", "__syncthreads", "kernels/vector.cuh", "as above"},
};
const Equal* equal(const simt::host::SyncPoint& p) {
  for (const Equal& e : kEqual)
    if (p.kernel == e.kernel && p.what == e.what && p.at.rfind(e.file, 0) == 0) return &e;
  return nullptr;
}

bool sync_mutants(bool verbose) {
  using simt::host::SyncPoint;
  std::vector<ErasedCase> cases;
  for (const auto& [name, op] : ops()) {
    std::vector<ErasedCase> small = op.cases(Scale::test);
    std::erase_if(small, [](const ErasedCase& c) { return accesses_of(c.problem) > kLongestCase; });
    const size_t n = std::min(kCasesOfAKernel, small.size());
    for (size_t i = 0; i < n; ++i) cases.push_back(small[i * small.size() / n]);
  }
  struct Use {
    Job job;
    SimtOptions options;
  };
  std::map<SyncPoint, std::vector<Use>> points;
  simt::host::Mutation mutation;
  simt::host::mutation = &mutation;
  size_t reported = 0, jobs = 0;
  for (const ErasedCase& c : cases)
    for (const Implementation* i : implementations(c.problem.name())) {
      if (i->device != Device::simt) continue;
      const Job job{i, &c.problem, accesses_of(c.problem)};
      for (const SimtOptions& options : {kForward, kReverse}) {
        mutation.seen.clear();
        ++jobs;
        if (const std::string failure = judge(job, options); !failure.empty()) {
          ++reported;
          fmt::print("false report: {}/{}/{}: {}\n", c.problem.name(), i->name, c.problem.label(), failure);
        }
        for (const SyncPoint& p : mutation.seen) points[p].push_back({job, options});
      }
    }
  size_t found = 0, equals = 0;
  for (auto& [point, uses] : points) {
    std::stable_sort(uses.begin(), uses.end(),
                     [](const Use& a, const Use& b) { return a.job.accesses < b.job.accesses; });
    // A few small cases first, then larger ones: the smallest may not go round a loop twice.
    std::vector<Use> order;
    for (size_t i = 0; i < std::min(kCasesFirst, uses.size()); ++i) order.push_back(uses[i]);
    for (size_t i = uses.size(); i-- > kCasesFirst && order.size() < kCasesAtMost;) order.push_back(uses[i]);
    mutation.without = point;
    simt::host::resolve_lines = verbose;  // addresses as lines: slow, and nobody reads them
    std::string failure;
    for (const Use& use : order) {
      failure = judge(use.job, use.options);
      if (!failure.empty()) break;
    }
    found += !failure.empty();
    if (failure.empty()) {
      const Equal* same = equal(point);
      equals += same != nullptr;
      fmt::print("survives: {} without {} at {}: {}\n", point.kernel, point.what, point.at,
                 same ? same->why : "no case tells the difference");
    }
    if (!failure.empty() && verbose)
      fmt::print("{} without {} at {}: {}\n", point.kernel, point.what, point.at, failure);
  }
  mutation.without.reset();
  simt::host::resolve_lines = true;
  simt::host::mutation = nullptr;
  fmt::print(
      "sync mutants {} of {} found, {} equal programs, in every kernel of the product; false reports {} in {} runs\n",
      found, points.size(), equals, reported, jobs);
  return reported == 0 && static_cast<double>(found) >= kSyncFloor * static_cast<double>(points.size() - equals);
}

// The jobs of these registrations ("softmax_tuned") on every small case: what a mutant of their kernels has to survive.
bool judge_all(const std::vector<std::string>& functions) {
  simt::host::resolve_lines = false;
  for (const auto& [name, op] : ops())
    for (const Implementation* i : implementations(name)) {
      if (i->device != Device::simt) continue;
      const std::string function = name + "_" + i->name.substr(i->name.find('.') + 1);
      if (std::find(functions.begin(), functions.end(), function) == functions.end()) continue;
      for (const ErasedCase& c : op.cases(Scale::test)) {
        if (accesses_of(c.problem) > kLongestCase) continue;
        for (const SimtOptions& options : {kForward, kReverse})
          if (const std::string failure = judge({i, &c.problem, 0}, options); !failure.empty()) {
            fmt::print("{}/{}/{}: {}\n", name, i->name, c.problem.label(), failure);
            return false;
          }
      }
    }
  return true;
}

int run(const std::vector<std::string>& arguments) {
  bool verbose = false, bounds = false;
  if (!arguments.empty() && arguments[0] == "--judge")
    return judge_all({arguments.begin() + 1, arguments.end()}) ? 0 : 1;
  for (const std::string& a : arguments) {
    if (a == "--verbose") {
      verbose = true;
    } else if (a == "--bounds") {
      bounds = true;
    } else {
      fmt::print(
          stderr,
          "simt_selftest: {} is neither --verbose (print what was found) nor --bounds (also compile kernels with "
          "shifted bounds: minutes)\n",
          a);
      return 2;
    }
  }
  std::string reason;
  if (!open_simt(reason)) {
    fmt::print("skipped: {}\n", reason);
    return 77;
  }
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
