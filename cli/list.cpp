// SPDX-License-Identifier: Apache-2.0
#include "cli/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/catalogue.h"
#include "cli/devices.h"
#include "cli/exit_status.h"
#include "core/error.h"
#include "core/name_filter.h"
#include "core/registry.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;

struct Listed {
  const Op* op;
  std::vector<std::string> implementations;
  std::vector<ProblemCase> cases;
};

// The implementations and cases of `op` with at least one job that matches the filter and the device.
Listed select(const Op& op, const NameFilter& filter, const std::string& device, Scale scale) {
  Listed listed{&op, {}, {}};
  std::vector<ProblemCase> cases = op.cases(scale);
  std::vector<bool> wanted(cases.size());
  for (const std::string& name : known_implementations(op.name)) {
    if (device != "all" && (device == "cpu") != (device_of(name) == Device::cpu)) continue;
    bool any = false;
    for (size_t c = 0; c < cases.size(); ++c)
      if (filter.matches(op.name + "/" + name + "/" + cases[c].problem.label())) {
        wanted[c] = true;
        any = true;
      }
    if (any) listed.implementations.push_back(name);
  }
  for (size_t c = 0; c < cases.size(); ++c)
    if (wanted[c]) listed.cases.push_back(std::move(cases[c]));
  return listed;
}

Json to_json(const Listed& l) {
  const std::string backward = backward_of(l.op->name);
  Json implementations = Json::array();
  Json cases = Json::array();
  for (const std::string& name : l.implementations) {
    const bool built = find_implementation(l.op->name, name);
    implementations.push_back({{"name", name}, {"device", name_of(device_of(name))}, {"built", built}});
    if (!built) implementations.back()["reason"] = not_built_reason(name);
  }
  for (const ProblemCase& c : l.cases)
    cases.push_back(
        {{"label", c.problem.label()}, {"why", c.why}, {"flops", c.problem.flops()}, {"bytes", c.problem.bytes()}});
  return {{"op", l.op->name},
          {"family", l.op->family},
          {"formula", l.op->formula},
          {"backward", backward.empty() ? Json(nullptr) : Json(backward)},
          {"implementations", implementations},
          {"cases", cases}};
}

void print(const Listed& l) {
  fmt::print("{} ({}): {}\n", l.op->name, l.op->family, l.op->formula);
  for (const std::string& name : l.implementations)
    fmt::print("  {:<16}{}\n", name, find_implementation(l.op->name, name) ? "" : not_built_reason(name));
  for (const ProblemCase& c : l.cases) fmt::print("    {:<48} {}\n", c.problem.label(), c.why);
}

int list_missing(const ListOptions& options) {
  const std::vector<Missing> all = missing_of(duet_catalogue_json);
  Json json = Json::array();
  for (const Missing& m : all) {
    json.push_back({{"op", m.op}, {"missing", m.what}, {"reason", m.reason.empty() ? Json(nullptr) : Json(m.reason)}});
    if (!options.json)
      fmt::print("{}: {}: {}\n", m.op, m.what, m.reason.empty() ? "without a reason in ops/catalogue.json" : m.reason);
  }
  if (options.json) fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  return std::all_of(all.begin(), all.end(), [](const Missing& m) { return !m.reason.empty(); }) ? 0 : kFailed;
}

}  // namespace

int run_list(const ListOptions& options) {
  if (options.missing) return list_missing(options);
  const NameFilter filter(options.filter);
  const Scale scale = options.scale == "test"    ? Scale::test
                      : options.scale == "full"  ? Scale::full
                      : options.scale == "sweep" ? Scale::sweep
                                                 : Scale::standard;
  std::vector<Listed> all;
  for (const auto& [name, op] : ops())
    if (Listed l = select(op, filter, options.device, scale); !l.implementations.empty()) all.push_back(std::move(l));
  if (all.empty())
    throw Error("--filter '{}' with --device {} matches no job; duet list shows all of them", options.filter,
                options.device);
  if (!options.json) {
    for (const Listed& l : all) print(l);
    return 0;
  }
  Json json = Json::array();
  for (const Listed& l : all) json.push_back(to_json(l));
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace duet
