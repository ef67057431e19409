// SPDX-License-Identifier: Apache-2.0
// A member of a JSON document that reports errors with the file and its own path: "run.json: duet.jobs[3].status: ...".
// Included by .cpp files only: nlohmann's header costs seconds of compile time.
#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "reports/run.h"

namespace duet::reports {

using Json = nlohmann::ordered_json;

struct JsonSource {
  std::string file;
  Json root;
};

class Node {
 public:
  explicit Node(const JsonSource& source) : Node(source, source.root) {}

  Node at(const char* key) const;                   // a required member, null included
  std::optional<Node> find(const char* key) const;  // empty where absent or null
  bool is_null() const { return value_->is_null(); }
  const Json& json() const { return *value_; }

  Node object() const;                                        // itself, or an error
  std::vector<Node> items() const;                            // of an array
  std::vector<std::pair<std::string, Node>> members() const;  // of an object
  std::string text() const;
  std::string non_empty_text() const;
  double number() const;
  double positive() const;
  double not_negative() const;
  int64_t integer(int64_t lowest) const;
  bool boolean() const;

  template <class Enum>
  Enum one_of(std::initializer_list<std::pair<const char*, Enum>> allowed) const {
    std::string list;
    for (const auto& [name, value] : allowed) {
      if (value_->is_string() && value_->get_ref<const std::string&>() == name) return value;
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    fail(fmt::format("{} is not one of {}", shown(), list));
  }

  std::string text_or(const char* key, std::string otherwise = "") const;
  std::optional<double> number_if(const char* key) const;  // not negative
  std::optional<int64_t> integer_if(const char* key) const;

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  Node(const JsonSource& source, const Json& value) : source_(&source), value_(&value) {}
  std::string shown() const;

  const JsonSource* source_;
  const Json* value_;
};

// Any value as one line of text, for lists of facts; shortened.
std::string as_fact(const Json& value);

}  // namespace duet::reports
