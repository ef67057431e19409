// SPDX-License-Identifier: Apache-2.0
#include "reports/json_node.h"

#include <cmath>

namespace duet::reports {
namespace {

constexpr size_t kShown = 60;

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
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace

void Node::fail(const std::string& problem) const {
  std::string path = path_of(source_->root, value_).value_or("");
  if (path.starts_with('.')) path.erase(0, 1);
  if (path.empty()) throw RunError(fmt::format("{}: {}", source_->file, problem));
  throw RunError(fmt::format("{}: {}: {}", source_->file, shortened(path), problem));
}

std::string Node::shown() const {
  if (value_->is_object() || value_->is_array() || value_->is_null()) return value_->type_name();
  return shortened(value_->dump());
}

Node Node::at(const char* key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("member '{}' is missing", key));
  return {*source_, *found};
}

std::optional<Node> Node::find(const char* key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return {};
  return Node(*source_, *found);
}

Node Node::object() const {
  if (!value_->is_object()) fail(fmt::format("{} is not an object", shown()));
  return *this;
}

std::vector<Node> Node::items() const {
  if (!value_->is_array()) fail(fmt::format("{} is not an array", shown()));
  std::vector<Node> nodes;
  nodes.reserve(value_->size());
  for (const Json& item : *value_) nodes.push_back({*source_, item});
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::members() const {
  object();
  std::vector<std::pair<std::string, Node>> nodes;
  for (const auto& [key, value] : value_->items()) nodes.emplace_back(key, Node(*source_, value));
  return nodes;
}

std::string Node::text() const {
  if (!value_->is_string()) fail(fmt::format("{} is not a string", shown()));
  return value_->get<std::string>();
}

std::string Node::non_empty_text() const {
  std::string found = text();
  if (found.empty()) fail("an empty string is not allowed");
  return found;
}

double Node::number() const {
  if (!value_->is_number()) fail(fmt::format("{} is not a number", shown()));
  return value_->get<double>();
}

double Node::positive() const {
  const double found = number();
  if (!(found > 0)) fail(fmt::format("{} is not a number above 0", shown()));
  return found;
}

double Node::not_negative() const {
  const double found = number();
  if (!(found >= 0)) fail(fmt::format("{} is not a number of at least 0", shown()));
  return found;
}

int64_t Node::integer(int64_t lowest) const {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const double found = value_->is_number() ? value_->get<double>() : NAN;
  if (!(found == std::floor(found) && found >= static_cast<double>(lowest) && found <= kExact))
    fail(fmt::format("{} is not an integer of at least {}", shown(), lowest));
  return static_cast<int64_t>(found);
}

bool Node::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("{} is not true or false", shown()));
  return value_->get<bool>();
}

std::string Node::text_or(const char* key, std::string otherwise) const {
  const auto node = find(key);
  return node ? as_fact(node->json()) : otherwise;
}

std::optional<double> Node::number_if(const char* key) const {
  const auto node = find(key);
  return node ? std::optional(node->not_negative()) : std::nullopt;
}

std::optional<int64_t> Node::integer_if(const char* key) const {
  const auto node = find(key);
  return node ? std::optional(node->integer(0)) : std::nullopt;
}

std::string as_fact(const Json& value) {
  constexpr size_t kLongest = 400;
  std::string text;
  if (value.is_string()) {
    text = value.get<std::string>();
  } else if (value.is_boolean()) {
    text = value.get<bool>() ? "yes" : "no";
  } else if (value.is_null()) {
    text = "none";
  } else if (value.is_number_float()) {
    text = fmt::format("{:.10g}", value.get<double>());
  } else if (value.is_array()) {
    for (const Json& item : value) {
      if (text.size() > kLongest) break;
      text += (text.empty() ? "" : " ") + (item.is_structured() ? item.dump() : as_fact(item));
    }
    if (value.empty()) text = "none";
  } else {
    text = value.dump();
  }
  if (text.size() > kLongest) {
    text.resize(kLongest);
    while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();  // no half of a UTF-8 character
    if (!text.empty() && (text.back() & 0x80)) text.pop_back();
    text += "...";
  }
  return text;
}

}  // namespace duet::reports
