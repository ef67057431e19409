// SPDX-License-Identifier: Apache-2.0
#include "cli/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/devices.h"
#include "core/error.h"
#include "core/registry.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::map<std::string, std::string>;  // of attributes

// What the registry has of an op.
struct Registered {
  std::set<std::string> implementations, dtypes, attributes;
  std::vector<Values> published;
};

Values values_of(const Problem& problem) {
  Values values;
  for (const Attribute& a : problem.attributes()) values[a.name] = a.text();
  return values;
}

Registered registered(const Op& op) {
  Registered all;
  for (std::string& name : known_implementations(op.name)) all.implementations.insert(std::move(name));
  for (const ProblemCase& c : op.cases(Scale::test)) all.dtypes.insert(name_of(c.problem.dtype()));
  for (const Attribute& a : op.make().attributes()) all.attributes.insert(a.name);
  for (const Scale scale : {Scale::full, Scale::sweep})
    for (const ProblemCase& c : op.cases(scale)) all.published.push_back(values_of(c.problem));
  return all;
}

// Each case of a shape list with each combination of `across`.
std::vector<std::string> cases_of(const Json& list) {
  std::vector<std::string> all = list.at("cases").get<std::vector<std::string>>();
  if (!list.contains("across")) return all;
  for (const auto& [name, values] : list["across"].items()) {
    std::vector<std::string> longer;
    for (const std::string& text : all)
      for (const Json& value : values)
        longer.push_back(fmt::format("{}{}{}:{}", text, text.empty() ? "" : " ", name, value.get<std::string>()));
    all = std::move(longer);
  }
  return all;
}

bool has_case(const Registered& op, const std::string& text) {
  const std::vector<CaseWord> words = words_of(text);
  return std::any_of(op.published.begin(), op.published.end(), [&](const Values& values) {
    return std::all_of(words.begin(), words.end(), [&](const CaseWord& w) {
      const auto at = values.find(std::string(w.name));
      return at != values.end() && at->second == w.value;
    });
  });
}

// Whether a case of the tests in this element type has a plan. Of cuda.* its simt twin is asked, since a GPU may lack a
// type that another has. Where an implementation is not built here, nothing is known, and this is true.
bool serves(const Op& op, const std::string& implementation, const std::string& dtype, Devices& devices) {
  std::string no_device;
  const Device device = device_of(implementation);
  if (device == Device::cuda || !find_implementation(op.name, implementation) || !devices.open(device, no_device))
    return true;
  for (const ProblemCase& c : op.cases(Scale::test))
    if (name_of(c.problem.dtype()) == dtype && unavailable_reason(c.problem, implementation, devices).empty())
      return true;
  return false;
}

// What is missing of one op.
std::vector<std::string> missing_of_op(const Json& catalogue, const Json& wanted, Devices& devices) {
  const auto op = ops().find(wanted.at("op").get<std::string>());
  if (op == ops().end()) return {"op"};
  const Registered has = registered(op->second);
  std::vector<std::string> all;
  const auto require = [&](const char* kind, const Json& names, const std::set<std::string>& present) {
    for (const Json& name : names)
      if (!present.contains(name.get<std::string>()))
        all.push_back(fmt::format("{} {}", kind, name.get<std::string>()));
  };
  const Json& own = wanted.contains("implementations") ? wanted["implementations"] : catalogue.at("implementations");
  const Json& dtypes = wanted.contains("dtypes") ? wanted["dtypes"] : catalogue.at("dtypes");
  require("implementation", own, has.implementations);
  if (wanted.contains("also")) require("implementation", wanted["also"], has.implementations);
  require("dtype", dtypes, has.dtypes);
  for (const Json& name : own)
    for (const Json& dtype : dtypes)
      if (const auto d = dtype.get<std::string>(), i = name.get<std::string>();
          has.dtypes.contains(d) && !serves(op->second, i, d, devices))
        all.push_back(fmt::format("dtype {} of {}", d, i));
  require("attribute", wanted.at("attributes"), has.attributes);
  if (wanted.contains("shapes"))
    for (const Json& list : wanted["shapes"])
      for (const std::string& text : cases_of(list))
        if (!has_case(has, text)) all.push_back("shape " + text);
  return all;
}

}  // namespace

std::vector<Missing> missing_of(std::string_view text) {
  std::vector<Missing> all;
  try {
    const Json catalogue = Json::parse(text);
    std::map<std::pair<std::string, std::string>, std::string> exceptions;
    for (const Json& e : catalogue.at("exceptions")) {
      const auto op = e.at("op").get<std::string>(), what = e.at("missing").get<std::string>();
      const auto reason = e.at("reason").get<std::string>();
      if (reason.empty() || !exceptions.insert({{op, what}, reason}).second)
        throw Error("the catalogue's exception '{}' of {} stands twice or has no reason", what, op);
    }
    Devices devices(1);
    for (const Json& wanted : catalogue.at("ops")) {
      const auto op = wanted.at("op").get<std::string>();
      for (std::string& what : missing_of_op(catalogue, wanted, devices)) {
        const auto exception = exceptions.find({op, what});
        std::string reason;
        if (exception != exceptions.end()) {
          reason = std::move(exception->second);
          exceptions.erase(exception);
        }
        all.push_back({op, std::move(what), std::move(reason)});
      }
    }
    for (const auto& [key, reason] : exceptions)
      all.push_back({key.first, fmt::format("exception '{}' that is not needed", key.second), ""});
  } catch (const Json::exception& e) {
    throw Error("the catalogue: {}", e.what());
  }
  return all;
}

}  // namespace duet
