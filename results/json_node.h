// SPDX-License-Identifier: Apache-2.0
// A value of a JSON document that reports errors with the file and its own path: "run.json: duet.jobs[3].status: ...".
// Used by read.cpp.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "results/run.h"

namespace duet::results {

using Json = nlohmann::ordered_json;

struct JsonSource {
  std::string name;  // of the file, for errors
  const Json& root;
};

class Node {
 public:
  explicit Node(const JsonSource& source) : Node(source, source.root) {}

  Node at(const char* key) const;                   // a required member, null included
  std::optional<Node> find(const char* key) const;  // empty where absent or null
  const Json& json() const { return *value_; }

  std::vector<Node> items() const;                            // of an array
  std::vector<std::pair<std::string, Node>> members() const;  // of an object
  bool boolean() const;
  double number(Allow rule = Allow::any) const;
  int64_t integer(Allow rule = Allow::any) const;
  uint64_t unsigned_integer() const;
  std::string text(const Allowed& allowed = Allow::any) const;
  size_t one_of(std::span<const char* const> names) const;  // which of them it is
  Value scalar() const;

  [[noreturn]] void fail(const std::string& problem) const;  // throws Error

 private:
  Node(const JsonSource& source, const Json& value) : source_(&source), value_(&value) {}
  void require_object() const;
  std::string shown() const;

  const JsonSource* source_;
  const Json* value_;
};

}  // namespace duet::results
