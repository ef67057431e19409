// SPDX-License-Identifier: Apache-2.0
#include "core/unfused_plan.h"

#include <string>

namespace duet {

Plan UnfusedPlan::plan_of(std::string_view op, const void* problem) const {
  Plan part = registered_plan(op, "tuned", problem, *context_);
  const std::string name(op);
  if (!part) return Unsupported{name + ": " + part.reason()};
  part.algorithm = part.algorithm.empty() ? name : name + ": " + part.algorithm;
  return part;
}

}  // namespace duet
