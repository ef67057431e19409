// SPDX-License-Identifier: Apache-2.0
#include "cli/op_describe.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace duet {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const Attribute& a) {
  if (a.type == "float") return std::strtod(a.text().c_str(), nullptr);  // prints 0.1, not the nearest float
  return std::visit([](const auto& v) { return Json(v); }, a.value);
}

Json whole_if_possible(double x) {
  constexpr double kMaxExact = 9007199254740992;  // 2^53: above it a double skips whole numbers
  if (std::isfinite(x) && x == std::floor(x) && std::abs(x) < kMaxExact) return static_cast<int64_t>(x);
  return x;
}

}  // namespace

std::string describe(const Problem& problem, Devices& devices) {
  const Op& op = problem.op();
  const std::string backward = backward_of(op.name);
  Json attributes = Json::array();
  Json tensors = Json::array();
  Json implementations = Json::array();
  for (const Attribute& a : problem.attributes())
    attributes.push_back({{"name", a.name}, {"type", a.type}, {"value", value_of(a)}, {"doc", a.doc}});
  for (const TensorSpec& t : problem.tensors())
    tensors.push_back({{"name", t.name}, {"role", name_of(t.role)}, {"dtype", name_of(t.dtype)}, {"shape", t.shape}});
  for (const std::string& name : known_implementations(op.name)) {
    implementations.push_back({{"name", name}});
    if (const std::string reason = unavailable_reason(problem, name, devices); !reason.empty())
      implementations.back()["reason"] = reason;
  }
  const Json all{{"op", op.name},
                 {"formula", op.formula},
                 {"backward", backward.empty() ? Json(nullptr) : Json(backward)},
                 {"flops", whole_if_possible(problem.flops())},
                 {"bytes", problem.bytes()},
                 {"attributes", attributes},
                 {"tensors", tensors},
                 {"implementations", implementations}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace duet
