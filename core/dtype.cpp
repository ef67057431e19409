// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace duet {
namespace {
struct Format {
  const char* name;
  int64_t size;
  int significand_bits, min_exponent;  // floats: precision including the hidden bit; exponent of the smallest normal
  double largest;
};
constexpr Format kFormats[] = {{"f64", 8, 53, -1022, std::numeric_limits<double>::max()},
                               {"f32", 4, 24, -126, 3.4028234663852886e38},
                               {"bf16", 2, 8, -126, 3.3895313892515355e38},
                               {"f16", 2, 11, -14, 65504},
                               {"i32", 4, 0, 0, 2147483647},
                               {"i8", 1, 0, 0, 127},
                               {"u8", 1, 0, 0, 255},
                               {"f8e4m3", 1, 4, -6, 448}};
const Format& format_of(DType t) { return kFormats[static_cast<int>(t)]; }
}  // namespace

const char* name_of(DType t) { return format_of(t).name; }
int64_t size_of(DType t) { return format_of(t).size; }
double largest(DType t) { return format_of(t).largest; }
double unit_roundoff(DType t) { return !is_integer(t) ? std::ldexp(1.0, -format_of(t).significand_bits) : 0; }
double unit_roundoff(Math math) { return math == Math::tf32 ? std::ldexp(1.0, -11) : 0; }
double underflow(DType t) { return !is_integer(t) ? std::ldexp(1.0, format_of(t).min_exponent) : 0; }

DType dtype_from(std::string_view name) {
  for (DType t : kDTypes)
    if (name == name_of(t)) return t;
  throw Error("dtype '{}' is not one of f64 f32 bf16 f16 i32 i8 u8 f8e4m3", name);
}

double round_to(DType t, double value) {
  if (t == DType::f64 || std::isnan(value)) return value;
  if (t == DType::f32) return static_cast<float>(value);
  const Format& f = format_of(t);
  if (is_integer(t)) {
    const double lowest = t == DType::u8 ? 0 : -f.largest - 1;
    return std::fmin(std::fmax(std::nearbyint(value), lowest), f.largest);
  }
  if (value == 0 || (std::isinf(value) && t != DType::f8e4m3)) return value;
  // One rounding, by the bits of the double. Rounding to f32 first would round twice.
  constexpr int kSignificandBits = 53;
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> (kSignificandBits - 1) & 0x7ff) - 1023;
  double rounded = 0;
  if (exponent >= f.min_exponent) {
    const int cut = kSignificandBits - f.significand_bits;
    const uint64_t half = uint64_t{1} << (cut - 1), odd = bits >> cut & 1;
    rounded = std::bit_cast<double>((bits + half - 1 + odd) >> cut << cut);
  } else {  // fewer bits below the smallest normal
    const double unit = std::ldexp(1.0, f.min_exponent - f.significand_bits + 1);
    rounded = std::nearbyint(value / unit) * unit;
  }
  if (std::abs(rounded) <= f.largest) return rounded;
  return std::copysign(t == DType::f8e4m3 ? f.largest : INFINITY, value);
}

f16::f16(float value) {
  const double r = round_to(DType::f16, value);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    bits = sign | 0x7e00;
  } else if (std::isinf(r)) {
    bits = sign | 0x7c00;
  } else if (std::abs(r) < std::ldexp(1.0, -14)) {
    bits = sign | static_cast<uint16_t>(std::abs(r) * std::ldexp(1.0, 24));
  } else {
    const auto u = std::bit_cast<uint32_t>(static_cast<float>(std::abs(r)));
    bits = static_cast<uint16_t>(sign | ((u >> 13) - (112u << 10)));  // exponents are biased by 127 and by 15
  }
}

f16::operator float() const {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                          : exponent ? std::bit_cast<float>(uint32_t(exponent + 112) << 23 | uint32_t(fraction) << 13)
                                     : static_cast<float>(fraction) * 0x1p-24f;
  return bits & 0x8000 ? -magnitude : magnitude;
}

f8e4m3::f8e4m3(float value) {
  const auto magnitude = static_cast<float>(std::abs(round_to(DType::f8e4m3, value)));
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) {
    bits = sign | 0x7f;
  } else if (magnitude < 0x1p-6f) {
    bits = sign | static_cast<uint8_t>(magnitude * 0x1p9f);
  } else {
    bits = sign | static_cast<uint8_t>((std::bit_cast<uint32_t>(magnitude) >> 20) - (120u << 3));  // biases 127 and 7
  }
}

f8e4m3::operator float() const {
  const int exponent = (bits >> 3) & 15, fraction = bits & 7;
  const float magnitude = (bits & 0x7f) == 0x7f ? NAN
                          : exponent ? std::bit_cast<float>(uint32_t(exponent + 120) << 23 | uint32_t(fraction) << 20)
                                     : static_cast<float>(fraction) * 0x1p-9f;
  return bits & 0x80 ? -magnitude : magnitude;
}

double load_as_double(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::bf16:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return static_cast<float>(static_cast<const f16*>(data)[i]);
    case DType::i32:
      return static_cast<const int32_t*>(data)[i];
    case DType::i8:
      return static_cast<const int8_t*>(data)[i];
    case DType::u8:
      return static_cast<const uint8_t*>(data)[i];
    case DType::f8e4m3:
      return static_cast<float>(static_cast<const f8e4m3*>(data)[i]);
  }
  return NAN;
}

void store_double(void* data, DType t, int64_t i, double value) {
  const double r = round_to(t, value);
  switch (t) {
    case DType::f64:
      static_cast<double*>(data)[i] = r;
      break;
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(r);
      break;
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(static_cast<float>(r));
      break;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(static_cast<float>(r));
      break;
    case DType::i32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(r);
      break;
    case DType::i8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(r);
      break;
    case DType::u8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(r);
      break;
    case DType::f8e4m3:
      static_cast<f8e4m3*>(data)[i] = f8e4m3(static_cast<float>(r));
      break;
  }
}

}  // namespace duet
