// SPDX-License-Identifier: Apache-2.0
#include "models/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace duet {
namespace {
constexpr Schedule::Kind kKinds[] = {Schedule::Kind::constant, Schedule::Kind::cosine, Schedule::Kind::step,
                                     Schedule::Kind::inverse_sqrt};
}  // namespace

const char* name_of(Schedule::Kind kind) {
  switch (kind) {
    case Schedule::Kind::cosine:
      return "cosine";
    case Schedule::Kind::step:
      return "step";
    case Schedule::Kind::inverse_sqrt:
      return "inverse_sqrt";
    default:
      return "constant";
  }
}

Schedule::Kind parse_schedule(std::string_view name) {
  for (const Schedule::Kind kind : kKinds)
    if (name == name_of(kind)) return kind;
  throw Error("schedule '{}'; constant, cosine, step and inverse_sqrt are known", name);
}

double Schedule::at(int64_t update) const {
  const auto u = static_cast<double>(update + 1), warm = static_cast<double>(warm_up);
  if (update < warm_up) return base * u / warm;
  const auto since = static_cast<double>(update - warm_up), rest = static_cast<double>(updates - warm_up);
  const auto share = [since](double of) { return std::min(1., since / std::max(1., of)); };
  switch (kind) {
    case Kind::cosine:
      return base * .5 * (1 + std::cos(std::numbers::pi * share(rest - 1)));  // 1 of the last update
    case Kind::step: {
      const double done = share(rest);
      return base * (done < 1. / 3 ? 1 : done < 2. / 3 ? .1 : .01);
    }
    case Kind::inverse_sqrt:
      return base * std::sqrt(std::max(1., warm) / u);
    default:
      return base;
  }
}

}  // namespace duet
