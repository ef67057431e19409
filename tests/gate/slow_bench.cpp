// SPDX-License-Identifier: Apache-2.0
// bench_all with every CPU implementation of relu slowed by a known factor: each application is followed by a wait of
// the rest of its own time. DUET_SLOW_FACTOR: the factor (default 1.25). In instructions it is a loop longer, whose
// count does not depend on time. tests/gate/builds.py has the gate find both; bench_all has none of this.
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "core/registry.h"

namespace duet {
namespace {

using Call = decltype(registration::PlanFunction::call);
using Clock = std::chrono::steady_clock;

// Of the implementations that are slowed, by their functions.
std::map<registration::PlanFunction::Any, Call>& unslowed() {
  static std::map<registration::PlanFunction::Any, Call> calls;
  return calls;
}

double factor() {
  static const char* const given = std::getenv("DUET_SLOW_FACTOR");
  static const double value = given ? std::stod(given) : 1.25;
  return value;
}

Plan slowed(registration::PlanFunction::Any function, const void* problem, Context& context) {
  Plan plan = unslowed().at(function)(function, problem, context);
  if (!plan) return plan;
  std::string algorithm = plan.algorithm;
  WorkspaceLayout workspace = plan.workspace;
  const bool varies = plan.varies;
  Plan slow = [plan = std::move(plan)](Args tensors) mutable {
    const auto begin = Clock::now();
    plan(tensors);
    const std::chrono::duration<double> taken = Clock::now() - begin;
    // Some microseconds. How often the wait reads the clock is no measure: valgrind runs one thread at a time, and the
    // whole wait may pass while it runs another.
    for (int turn = 0; turn < 2000; ++turn) asm volatile("");  // the compiler leaves a loop that it cannot see into
    while (Clock::now() - begin < factor() * taken) {
    }
  };
  return std::move(slow).with(std::move(algorithm), std::move(workspace)).varying(varies);
}

// The registry's entries are no constants: it hands out constant pointers so that the product changes none.
void slow_down(const std::string& op) {
  for (const Implementation* known : implementations(op)) {
    if (known->device != Device::cpu) continue;
    auto& function = const_cast<Implementation*>(known)->function;
    unslowed()[function.function] = function.call;
    function.call = slowed;
  }
}

}  // namespace
}  // namespace duet

// The linker (--wrap=main) puts this around bench_all's main: by then every implementation is registered.
extern "C" int __real_main(int argc, char** argv);   // NOLINT: the linker names both
extern "C" int __wrap_main(int argc, char** argv) {  // NOLINT
  duet::slow_down("relu");
  return __real_main(argc, argv);
}
