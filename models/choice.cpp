// SPDX-License-Identifier: Apache-2.0
#include "models/choice.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

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
constexpr double kCheckedWork = 2e7;  // of the reference, for a look at each result; a timed step is checked further
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

struct Timed {
  double time_s;
  Chosen chosen;
};

// What accepts the problem, the fastest first; nothing where there is too little memory to try. An implementation that
// is alone and preferred is not tried: the order would take it as well.
std::vector<Timed> by_time(const Problem& problem, Context& context, const std::vector<std::string>& preferences) {
  int64_t bytes = 0;
  for (const TensorSpec& spec : problem.tensors()) bytes += spec.bytes();
  // Tensors, copies of inouts, and workspaces.
  const auto has_room = [&](int64_t workspace) { return 3 * bytes + workspace <= available_bytes(context); };
  if (!has_room(0)) return {};
  const std::string device = std::string(name_of(context.device())) + ".";
  std::vector<Timed> all;
  for (const Implementation* implementation : implementations(problem.name())) {
    if (!implementation->name.starts_with(device)) continue;
    // Not tried, because trying takes time: the simple one, and the parts of a fused op one after the other.
    if (implementation->name == device + "naive" || implementation->name == device + "unfused") continue;
    Plan plan = implementation->plan(problem, context);
    if (plan.is_prepared()) continue;  // a tape would prepare it in every run
    if (plan && has_room(plan.workspace_bytes())) all.push_back({0, {implementation->name, std::move(plan)}});
  }
  const auto is_preferred = [&](const Timed& each) {
    return std::find(preferences.begin(), preferences.end(), each.chosen.implementation) != preferences.end();
  };
  if (all.empty() || (all.size() == 1 && is_preferred(all.front()))) return all;

  const HostTensors inputs = draw_inputs(problem, FillMode::values, kSeed);
  const Expected expected = Expected::sampled(problem, inputs, kSeed, kCheckedWork);
  std::vector<Timed> right;
  for (Timed& each : all) {
    // One that fails here or whose result is wrong is not chosen.
    try {
      Session session(problem, std::move(each.chosen.plan), context, inputs);
      each.time_s = fastest_s(session);
      session.restore();
      session.poison_outputs();
      context.enter([&] { session.run(); });
      context.synchronize();
      if (!session.check(expected, false).passed()) continue;
      each.chosen.plan = std::move(session).take_plan();
      right.push_back(std::move(each));
    } catch (const std::exception&) {
    }
  }
  std::sort(right.begin(), right.end(), [](const Timed& a, const Timed& b) { return a.time_s < b.time_s; });
  return right;
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
    if (const auto known = measured.find(key); known != measured.end()) {
      names.insert(names.begin(), known->second.begin(), known->second.end());
    } else {
      std::vector<Timed> timed = by_time(problem, context, preferences);
      std::vector<std::string>& fastest = measured[key];
      for (const Timed& each : timed) fastest.push_back(each.chosen.implementation);
      if (!timed.empty()) return std::move(timed.front().chosen);
    }
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
