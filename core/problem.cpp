// SPDX-License-Identifier: Apache-2.0
#include "core/problem.h"

#include <charconv>

#include "core/error.h"

namespace duet {
namespace {

// A number, nan and inf among them, or nothing.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Two finite numbers around `separator`.
std::optional<std::pair<double, double>> pair_of(std::string_view text, std::string_view separator) {
  const size_t at = text.find(separator);
  if (at == text.npos) return std::nullopt;
  const auto a = number_of(text.substr(0, at)), b = number_of(text.substr(at + separator.size()));
  if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b)) return std::nullopt;
  return std::pair{*a, *b};
}

}  // namespace

const char* name_of(Role r) { return r == Role::in ? "in" : r == Role::out ? "out" : "inout"; }

Fill Fill::from(std::string_view text, const Fill& contract) {
  constexpr std::pair<const char*, Kind> kNamed[] = {{"edges", Kind::edges},
                                                     {"edges+inf", Kind::edges_inf},
                                                     {"edges+inf+nan", Kind::edges_inf_nan},
                                                     {"subnormal", Kind::subnormal},
                                                     {"halfway", Kind::halfway}};
  for (const auto& [name, kind] : kNamed)
    if (text == name) return {kind, 0, 0};
  const size_t colon = text.find(':');
  const std::string_view form = text.substr(0, colon), rest = colon == text.npos ? "" : text.substr(colon + 1);
  if (form == "normal") {
    if (const auto moments = pair_of(rest, ":"); moments && moments->second >= 0)
      return normal(moments->first, moments->second);
  } else if (form == "below") {
    if (const auto n = number_of(rest); n && *n >= 1 && *n == std::floor(*n) && *n <= 0x1p31)
      return below(static_cast<int64_t>(*n));
  } else if (form == "last") {
    if (const auto value = number_of(rest)) {
      Fill fill = contract;
      fill.last = value;
      return fill;
    }
  } else if (const auto value = number_of(text)) {
    return constant(*value);
  } else if (const auto range = pair_of(text, ".."); range && range->first <= range->second) {
    return uniform(range->first, range->second);
  }
  throw Error(
      "fill '{}' is not one of VALUE FROM..TO normal:MEAN:DEVIATION below:N last:VALUE edges edges+inf "
      "edges+inf+nan subnormal halfway",
      text);
}

int64_t TensorSpec::elements() const {
  int64_t n = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) throw Error("tensor {}: extent {} is negative; zero or more is allowed", name, extent);
    if (__builtin_mul_overflow(n, extent, &n) || n > (int64_t{1} << 50))
      throw Error("tensor {}: the product of its extents overflows; at most 2^50 elements are allowed", name);
  }
  return n;
}
int64_t TensorSpec::bytes() const { return elements() * size_of(dtype); }
int64_t TensorSpec::traffic_bytes() const {
  return (touched < 0 ? elements() : touched) * size_of(dtype) * (role == Role::inout ? 2 : 1);
}
bool TensorSpec::may_be(const TensorSpec& input, size_t i) const {
  return (inputs >> i & 1) && input.dtype == dtype && input.elements() == elements();
}
TensorSpec TensorSpec::touching(int64_t n) const {
  TensorSpec copy = *this;
  copy.touched = n;
  return copy;
}

int64_t Shapes::Dims::operator[](size_t axis) const {
  if (!shape) throw Error("tensor {} is needed to infer dimensions; give it or the dimensions", tensor);
  if (axis >= shape->size())
    throw Error("tensor {} has rank {}; at least {} expected", tensor, shape->size(), axis + 1);
  return (*shape)[axis];
}

}  // namespace duet
