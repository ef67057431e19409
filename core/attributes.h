// SPDX-License-Identifier: Apache-2.0
// Visitors over a problem's one attributes(field) list: from it come label, JSON, --attr, --describe and the checks.
//   field("rows", rows, "doc")          a dimension: int64_t >= 0, always in the label
//   field("dtype", dtype, "doc")        the element type: first, its value alone is the label
//   field.option("alpha", alpha, "doc") anything else: in the label only when it differs from its default
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/dtype.h"

namespace duet {

// Enumerations that can be attributes say their names in the order of their values: names_of(Math{}).
inline std::vector<std::string> names_of(Math) { return {"ieee", "tf32"}; }

using AttributeValue = std::variant<int64_t, bool, double, std::string>;

struct Attribute {
  std::string name, type, doc;  // type: dtype, int, bool, float, enum
  AttributeValue value;
  std::vector<std::string> allowed;  // of an enum or dtype
  bool dimension = false, is_default = false;
  std::string text() const;  // the value as it stands in a label and on a command line
};

namespace attribute {

int64_t parse_int(std::string_view name, std::string_view text);   // whole, decimal, fits
double parse_float(std::string_view name, std::string_view text);  // finite
bool parse_bool(std::string_view name, std::string_view text);     // 0 1 false true
int parse_choice(std::string_view name, std::string_view text, const std::vector<std::string>& allowed);

// Reads all attributes of a problem.
struct Reader {
  std::vector<Attribute> list;
  void operator()(const char* name, DType value, const char* doc) {
    std::vector<std::string> allowed;
    for (DType t : kDTypes) allowed.emplace_back(name_of(t));
    list.push_back({name, "dtype", doc, std::string(name_of(value)), std::move(allowed), false, false});
  }
  void operator()(const char* name, int64_t value, const char* doc) {
    list.push_back({name, "int", doc, value, {}, true, false});
  }
  template <class T>
  void option(const char* name, T value, const char* doc) {
    if constexpr (std::is_same_v<T, DType>)
      (*this)(name, value, doc);
    else if constexpr (std::is_same_v<T, bool>)
      list.push_back({name, "bool", doc, value, {}, false, false});
    else if constexpr (std::is_enum_v<T>)
      list.push_back({name, "enum", doc, names_of(value)[static_cast<size_t>(value)], names_of(value), false, false});
    else if constexpr (std::is_floating_point_v<T>)
      list.push_back({name, "float", doc, static_cast<double>(value), {}, false, false});
    else
      list.push_back({name, "int", doc, static_cast<int64_t>(value), {}, false, false});
  }
};

// Sets the attribute `name` from text; `found` says whether the problem has it.
struct Writer {
  std::string_view name, text;
  bool found = false;
  void operator()(const char* field, DType& value, const char*) {
    if (name == field) {
      value = dtype_from(text);
      found = true;
    }
  }
  void operator()(const char* field, int64_t& value, const char*) {
    if (name == field) {
      value = parse_int(name, text);
      found = true;
    }
  }
  template <class T>
  void option(const char* field, T& value, const char*) {
    if (name != field) return;
    found = true;
    if constexpr (std::is_same_v<T, DType>)
      value = dtype_from(text);
    else if constexpr (std::is_same_v<T, bool>)
      value = parse_bool(name, text);
    else if constexpr (std::is_enum_v<T>)
      value = static_cast<T>(parse_choice(name, text, names_of(T{})));
    else if constexpr (std::is_floating_point_v<T>)
      value = static_cast<T>(parse_float(name, text));
    else
      value = static_cast<T>(parse_int(name, text));
  }
};

}  // namespace attribute
}  // namespace duet
