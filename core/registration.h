// SPDX-License-Identifier: Apache-2.0
// What an implementation's file needs besides its op's contract: the plan it returns, and DUET_REGISTER, which enters
// it in the registry (core/registry.h) before main. Kept light: every kernel file compiles this header several times.
#pragma once
#include "core/context.h"
#include "core/plan.h"
#include "core/problem.h"

namespace duet::registration {

// A plan function `Plan f(const P&, C&)` with its types erased.
struct PlanFunction {
  using Any = void (*)();
  Any function;
  Plan (*call)(Any function, const void* problem, Context& context);
};

// function_name: "<op>_<variant>". Throws Error when it is named otherwise, or when the name is taken.
bool add_implementation(const char* op, Device device, const char* function_name, PlanFunction plan);

template <class P, class C>
bool add(Plan (*function)(const P&, C&), const char* function_name) {
  const auto call = [](PlanFunction::Any any, const void* problem, Context& context) {
    const auto typed = reinterpret_cast<Plan (*)(const P&, C&)>(any);
    return typed(*static_cast<const P*>(problem), static_cast<C&>(context));
  };
  return add_implementation(P::name, C::kDevice, function_name, {reinterpret_cast<PlanFunction::Any>(function), call});
}

}  // namespace duet::registration

// The function's parameters say problem and device, its name <op>_<variant> the rest.
#define DUET_REGISTER(function) \
  [[maybe_unused]] static const bool function##_registered = ::duet::registration::add(&function, #function)
