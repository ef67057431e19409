// SPDX-License-Identifier: Apache-2.0
// Which implementation runs an op. Tape::plan() asks for each node.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.h"
#include "core/error.h"
#include "core/registry.h"

namespace duet {

// No preferred implementation supports the case, or there is too little memory: a skip with its reason, not a failure.
struct NotServed : Error {
  using Error::Error;
};

// order: the first in the list of preferences that accepts the problem. measured: the fastest of all that accept it,
// preferred or not but for naive ones; where they are several, each is timed by itself on drawn inputs with warm caches
// and its result compared. What was measured is kept for the process, so that equal problems choose alike. Where the
// memory for a trial is missing, the order decides.
enum class Choice : uint8_t { order, measured };
const char* name_of(Choice choice);
Choice parse_choice(std::string_view name);  // throws Error that lists the names

struct Chosen {
  std::string implementation;
  Plan plan;
};
// Inside context.enter(). Throws NotServed with op, case and every reason where no preferred implementation serves it.
Chosen choose(const Problem& problem, Context& context, const std::vector<std::string>& preferences, Choice choice);

}  // namespace duet
