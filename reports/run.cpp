// SPDX-License-Identifier: Apache-2.0
#include "reports/run.h"

#include <algorithm>

namespace duet::reports {

std::string to_text(Device device) { return device == Device::cpu ? "CPU" : "GPU"; }

std::string to_text(Status status) {
  return status == Status::ok ? "ok" : status == Status::skipped ? "skipped" : "failed";
}

std::string to_text(Scope scope) {
  return scope == Scope::kernel ? "kernel" : scope == Scope::call ? "call" : "end to end";
}

std::string to_text(Cache cache) { return cache == Cache::warm ? "warm" : cache == Cache::cold ? "cold" : "rotating"; }

std::string to_text(Bound bound) { return bound == Bound::memory ? "memory" : "compute"; }

bool Repetition::disturbed() const {
  return std::any_of(flags.begin(), flags.end(), [](const std::string& flag) { return flag != "retried"; });
}

bool Series::has_flag(const std::string& flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace duet::reports
