// SPDX-License-Identifier: Apache-2.0
#include "models/choice.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "core/compare.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/registry.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr double kTrial_s = 2e-3;     // a trial is repeated until it lasts this long,
constexpr int kTrials = 5;            // and its fastest repetition of these counts,
constexpr double kSlowTrial_s = 0.1;  // unless one takes longer
constexpr uint64_t kSeed = 1;

double seconds_of(Session& session, int runs) {
  double time_s = 0;
  Context& context = session.context();
  session.restore();
  context.synchronize();
  context.enter([&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) session.run();
    context.synchronize();
    time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  return time_s / runs;
}

double fastest_s(Session& session) {
  seconds_of(session, 1);  // what happens at a first run
  double fastest = std::max(seconds_of(session, 1), 1e-9);
  if (fastest > kSlowTrial_s) return fastest;
  // An op that updates in place would leave the range of its numbers: it runs once from its first inputs.
  const int runs = session.has_inout() ? 1 : static_cast<int>(std::clamp(kTrial_s / fastest, 1., 1000.));
  for (int i = 0; i < kTrials; ++i) fastest = std::min(fastest, seconds_of(session, runs));
  return fastest;
}

// Names of implementations in order of their measured time, of those that accept the problem.
std::vector<std::string> by_time(const Problem& problem, Context& context) {
  int64_t bytes = 0;
  for (const TensorSpec& spec : problem.tensors()) bytes += spec.bytes();
  if (3 * bytes > available_bytes(context)) return {};  // also copies of inouts, and workspaces
  const std::string device = std::string(name_of(context.device())) + ".";
  const HostTensors inputs = draw_inputs(problem, FillMode::values, kSeed);
  const Expected expected = Expected::sampled(problem, inputs, kSeed);
  std::vector<std::pair<double, std::string>> times;
  for (const Implementation* implementation : implementations(problem.name())) {
    if (!implementation->name.starts_with(device) || implementation->name == device + "naive") continue;
    // One that fails here, that needs more memory than there is, or whose result is wrong is not chosen.
    const Plan plan = implementation->plan(problem, context);
    if (!plan || 3 * bytes + plan.workspace_bytes() > available_bytes(context)) continue;
    try {
      Session session(problem, *implementation, context, inputs);
      if (!session.supported()) continue;
      const double time_s = fastest_s(session);
      session.restore();
      session.poison_outputs();
      context.enter([&] { session.run(); });
      context.synchronize();
      if (session.check(expected, false).passed()) times.emplace_back(time_s, implementation->name);
    } catch (const std::exception&) {
    }
  }
  std::sort(times.begin(), times.end());
  std::vector<std::string> names;
  for (auto& [time_s, name] : times) names.push_back(std::move(name));
  return names;
}

}  // namespace

const char* name_of(Choice choice) { return choice == Choice::measured ? "measured" : "order"; }

Choice parse_choice(std::string_view name) {
  for (const Choice choice : {Choice::order, Choice::measured})
    if (name == name_of(choice)) return choice;
  throw Error("'{}' is no way to choose; order and measured are known", name);
}

Chosen choose(const Problem& problem, Context& context, const std::vector<std::string>& preferences, Choice choice) {
  std::vector<std::string> names = preferences;
  if (choice == Choice::measured) {
    static std::mutex mutex;
    static std::map<std::string, std::vector<std::string>> measured;
    const std::lock_guard lock(mutex);
    const std::string key = context.describe() + " " + problem.name() + " " + problem.label();
    auto known = measured.find(key);
    if (known == measured.end()) known = measured.emplace(key, by_time(problem, context)).first;
    names.insert(names.begin(), known->second.begin(), known->second.end());
  }
  std::string reasons;
  for (const std::string& name : names) {
    const Implementation* implementation = find_implementation(problem.name(), name);
    Plan plan = implementation ? implementation->plan(problem, context) : Unsupported{"not built here"};
    if (plan) return {name, std::move(plan)};
    reasons += (reasons.empty() ? "" : "; ") + name + ": " + plan.reason();
  }
  throw NotServed("{} {} is served by none of the preferred implementations ({})", problem.name(), problem.label(),
                  reasons);
}

}  // namespace duet
