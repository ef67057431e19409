// SPDX-License-Identifier: Apache-2.0
#include "core/attributes.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace duet {

std::string Attribute::text() const {
  if (const auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "1" : "0";
  if (const auto* d = std::get_if<double>(&value))
    return fmt::format("{}", static_cast<float>(*d));  // attributes are float
  return std::get<std::string>(value);
}

namespace attribute {

int64_t parse_int(std::string_view name, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) throw Error("attribute {}: '{}' does not fit 64 bits", name, text);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("attribute {}: '{}' is not a whole number", name, text);
  return value;
}
double parse_float(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(std::abs(value) <= std::numeric_limits<float>::max()))
    throw Error("attribute {}: '{}' is not a finite number of f32", name, text);
  return value;
}
bool parse_bool(std::string_view name, std::string_view text) {
  if (text == "0" || text == "false") return false;
  if (text == "1" || text == "true") return true;
  throw Error("attribute {}: '{}' is not one of 0 1 false true", name, text);
}
int parse_choice(std::string_view name, std::string_view text, const std::vector<std::string>& allowed) {
  for (size_t i = 0; i < allowed.size(); ++i)
    if (text == allowed[i]) return static_cast<int>(i);
  throw Error("attribute {}: '{}' is not one of {}", name, text, fmt::join(allowed, " "));
}

}  // namespace attribute
}  // namespace duet
