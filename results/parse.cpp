// SPDX-License-Identifier: Apache-2.0
#include "results/parse.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"

namespace duet::results {
namespace {

using Json = nlohmann::ordered_json;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr int kMaxDepth = 64;
static_assert(kParsePadding >= simdjson::SIMDJSON_PADDING);

// nlohmann's message without its own prefix, on one line.
std::string short_message(const Json::exception& error) {
  std::string text = error.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos) text.erase(0, end + 2);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

[[noreturn]] void refuse(const std::string& where, const Json::exception& error, size_t length) {
  const auto* parse = dynamic_cast<const Json::parse_error*>(&error);
  const bool cut = parse && parse->byte > length;  // the parser wanted more than there is
  throw Error("{}: {}: {}", where, cut ? "the file ends too early" : "not JSON", short_message(error));
}

Json converted(const element& value);

Json converted(const simdjson::dom::object& members, const char* skipped) {
  Json object = Json::object();
  for (const auto& [key, value] : members)  // of two equal keys the later one counts, as for nlohmann
    object[std::string(key)] =
        skipped && key == skipped && value.type() == element_type::ARRAY ? Json::array() : converted(value);
  return object;
}

Json converted(const element& value) {
  switch (value.type()) {
    case element_type::OBJECT:
      return converted(simdjson::dom::object(value), nullptr);
    case element_type::ARRAY: {
      Json array = Json::array();
      const simdjson::dom::array items(value);
      array.get_ref<Json::array_t&>().reserve(items.size());
      for (const element item : items) array.push_back(converted(item));
      return array;
    }
    case element_type::INT64:  // those of at least 0, too, which nlohmann calls unsigned
      if (const int64_t number(value); number < 0) return number;
      return static_cast<uint64_t>(int64_t(value));
    case element_type::UINT64:
      return uint64_t(value);
    case element_type::DOUBLE:
      return double(value);
    case element_type::STRING:
      return std::string(std::string_view(value));
    case element_type::BOOL:
      return bool(value);
    case element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

}  // namespace

void refuse_deep_nesting(const std::string& where, const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;  // the character that is escaped
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kMaxDepth) throw Error("{}: nested deeper than {} levels", where, kMaxDepth);
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

Json parse_json(const std::string& where, const std::string& text, const char* skipped) {
  simdjson::dom::parser parser;
  element root;
  if (parser.allocate(text.size(), kMaxDepth) == simdjson::SUCCESS &&
      parser.parse(text).get(root) == simdjson::SUCCESS) {
    simdjson::dom::object members;
    if (root.get(members) != simdjson::SUCCESS) return converted(root);
    return converted(members, members["duet"].error() == simdjson::SUCCESS ? skipped : nullptr);
  }
  refuse_deep_nesting(where, text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    refuse(where, error, text.size());
  }
}

}  // namespace duet::results
