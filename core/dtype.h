// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes, rounding, and the storage types of short floats on the host.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace duet {

enum class DType : uint8_t { f64, f32, bf16, f16, i32, i8, u8, f8e4m3 };
enum class Math : uint8_t { ieee, tf32 };  // how f32 factors are multiplied; tf32 rounds them to 10 bits

inline constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16, DType::f16,
                                    DType::i32, DType::i8,  DType::u8,   DType::f8e4m3};

const char* name_of(DType);
DType dtype_from(std::string_view name);  // throws Error that lists the allowed names
int64_t size_of(DType);
constexpr bool is_float(DType t) { return t <= DType::f16; }  // ops compute and write these; f8e4m3 is only read
constexpr bool is_integer(DType t) { return t == DType::i32 || t == DType::i8 || t == DType::u8; }

double unit_roundoff(DType);           // u: half the distance from 1 to the next value; 0 for integers
double unit_roundoff(Math);            // of a factor before it is multiplied: 0 for ieee, 2^-11 for tf32
double underflow(DType);               // smallest normal value: below it, a result may be flushed to zero
double largest(DType);                 // largest finite value
double round_to(DType, double value);  // nearest representable value, ties to even; integers and f8e4m3 saturate

// Storage of the halves. Arithmetic happens in f32; conversion rounds to nearest even.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    bits =
        (u & 0x7fffffffu) > 0x7f800000u ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct f16 {
  uint16_t bits;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
};
// E4M3 of the Open Compute Project's "OCP 8-bit Floating Point Specification": 4 bits of exponent, 3 of the fraction,
// no infinity, one NaN of either sign. The largest value is 448, and values beyond it become that, as CUDA's
// conversions.
struct f8e4m3 {
  uint8_t bits;
  f8e4m3() = default;
  explicit f8e4m3(float value);
  explicit operator float() const;
};

// The DType of a C++ element type. Kernels add their device types (simt/launch.h).
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<f8e4m3> {
  static constexpr DType value = DType::f8e4m3;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

double load_as_double(const void* data, DType, int64_t index);
void store_double(void* data, DType, int64_t index, double value);  // rounds as round_to

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace duet
