// SPDX-License-Identifier: Apache-2.0
#include "results/json_node.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace duet::results {
namespace {

constexpr size_t kMaxShown = 60;  // characters of a value in an error

// The path is searched for when there is an error, so that reading carries none.
std::optional<std::string> path_of(const Json& from, const Json* wanted) {
  if (&from == wanted) return "";
  if (from.is_array()) {
    for (size_t i = 0; i < from.size(); ++i)
      if (const auto rest = path_of(from[i], wanted)) return fmt::format("[{}]{}", i, *rest);
  } else if (from.is_object()) {
    for (const auto& [key, value] : from.items())
      if (const auto rest = path_of(value, wanted)) return "." + key + *rest;
  }
  return {};
}

std::string shortened(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

// What is wrong with a number under a rule, or null.
const char* violation(double value, Allow rule) {
  if (rule == Allow::positive && !(value > 0)) return "above 0";
  if (rule == Allow::not_negative && !(value >= 0)) return "of at least 0";
  if (rule == Allow::at_least_one && !(value >= 1)) return "of at least 1";
  return nullptr;
}

}  // namespace

void Node::fail(const std::string& problem) const {
  std::string path = path_of(source_->root, value_).value_or("");
  if (path.starts_with('.')) path.erase(0, 1);
  if (path.empty()) throw Error("{}: {}", source_->name, problem);
  throw Error("{}: {}: {}", source_->name, shortened(path), problem);
}

std::string Node::shown() const {
  if (value_->is_object() || value_->is_array() || value_->is_null()) return value_->type_name();
  return shortened(value_->dump());
}

void Node::require_object() const {
  if (!value_->is_object()) fail(fmt::format("{} is not an object", shown()));
}

Node Node::at(const char* key) const {
  require_object();
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("member '{}' is missing", key));
  return {*source_, *found};
}

std::optional<Node> Node::find(const char* key) const {
  require_object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return {};
  return Node(*source_, *found);
}

std::vector<Node> Node::items() const {
  if (!value_->is_array()) fail(fmt::format("{} is not an array", shown()));
  std::vector<Node> nodes;
  nodes.reserve(value_->size());
  for (const Json& item : *value_) nodes.push_back({*source_, item});
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::members() const {
  require_object();
  std::vector<std::pair<std::string, Node>> nodes;
  for (const auto& [key, value] : value_->items()) nodes.emplace_back(key, Node(*source_, value));
  return nodes;
}

bool Node::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("{} is not true or false", shown()));
  return value_->get<bool>();
}

double Node::number(Allow rule) const {
  if (!value_->is_number()) fail(fmt::format("{} is not a number", shown()));
  const double found = value_->get<double>();
  if (const char* allowed = violation(found, rule)) fail(fmt::format("{} is not a number {}", shown(), allowed));
  return found;
}

int64_t Node::integer(Allow rule) const {
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail(fmt::format("{} is above {}, the largest integer allowed", shown(), INT64_MAX));
  if (value_->is_number_integer()) {
    const auto exact = value_->get<int64_t>();
    if (const char* allowed = violation(static_cast<double>(exact), rule))
      fail(fmt::format("{} is not an integer {}", shown(), allowed));
    return exact;
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double is no exact count
  const double found = value_->is_number() ? value_->get<double>() : NAN;
  const char* allowed = violation(found, rule);
  if (!(found == std::floor(found) && std::abs(found) <= kExact) || allowed)
    fail(fmt::format("{} is not an integer{}{}", shown(), allowed ? " " : "", allowed ? allowed : ""));
  return static_cast<int64_t>(found);
}

uint64_t Node::unsigned_integer() const {
  if (!value_->is_number_unsigned()) fail(fmt::format("{} is not an integer of at least 0", shown()));
  return value_->get<uint64_t>();
}

std::string Node::text(const Allowed& allowed) const {
  if (!allowed.values.empty()) return allowed.values[one_of(allowed.values)];
  if (!value_->is_string()) fail(fmt::format("{} is not a string", shown()));
  std::string found = value_->get<std::string>();
  if (allowed.rule == Allow::not_empty && found.empty()) fail("an empty string is not allowed");
  return found;
}

size_t Node::one_of(std::span<const char* const> names) const {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (value_->is_string() && value_->get_ref<const std::string&>() == names[i]) return i;
    list += (list.empty() ? "" : ", ") + std::string(names[i]);
  }
  fail(fmt::format("{} is not one of {}", shown(), list));
}

Value Node::scalar() const {
  if (value_->is_boolean()) return value_->get<bool>();
  if (value_->is_number_integer()) return integer();
  if (value_->is_number()) return value_->get<double>();
  if (!value_->is_string()) fail(fmt::format("{} is not a number, a string, true or false", shown()));
  return value_->get<std::string>();
}

}  // namespace duet::results
