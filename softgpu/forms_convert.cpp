// SPDX-License-Identifier: Apache-2.0
// cvt and cvta. Semantics: PTX ISA, "Data Movement and Conversion Instructions: cvt", with its tables of legal forms.
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "softgpu/forms.h"
#include "softgpu/half.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

template <class D>
struct To {
  template <class A>
  D operator()(A a) const {
    return static_cast<D>(a);
  }
};

// Integers with .sat: the nearest value of the target type.
template <class D>
struct Saturated {
  template <class A>
  D operator()(A a) const {
    const auto wide = static_cast<long double>(a);
    constexpr auto kLow = static_cast<long double>(std::numeric_limits<D>::min()),
                   kHigh = static_cast<long double>(std::numeric_limits<D>::max());
    return wide < kLow    ? std::numeric_limits<D>::min()
           : wide > kHigh ? std::numeric_limits<D>::max()
                          : static_cast<D>(a);
  }
};

enum class Direction { nearest, zero, down, up };
template <Direction kDirection, class T>
T rounded_to_integer(T a) {
  if constexpr (kDirection == Direction::nearest) return std::nearbyint(a);
  if constexpr (kDirection == Direction::zero) return std::trunc(a);
  if constexpr (kDirection == Direction::down) return std::floor(a);
  return std::ceil(a);
}
template <Direction kDirection>
struct Integral {
  template <class T>
  T operator()(T a) const {
    return rounded_to_integer<kDirection>(a);
  }
};

// Floating point to integer always saturates. NaN becomes 0, or 0x8000000000000000 for 64 bits.
template <class D, Direction kDirection>
struct ToInteger {
  template <class A>
  D operator()(A a) const {
    constexpr int kBits = sizeof(D) * 8;
    if (a != a) return kBits == 64 ? static_cast<D>(uint64_t{1} << 63) : D{0};
    const double whole = rounded_to_integer<kDirection>(static_cast<double>(a));
    const double low = std::is_signed_v<D> ? -std::ldexp(1.0, kBits - 1) : 0;
    const double high = std::ldexp(1.0, std::is_signed_v<D> ? kBits - 1 : kBits);
    if (whole <= low) return std::numeric_limits<D>::min();
    if (whole >= high) return std::numeric_limits<D>::max();
    return static_cast<D>(whole);
  }
};

struct ToUnitInterval {  // .sat: NaN becomes 0
  template <class T>
  T operator()(T a) const {
    return a > 0 ? (a < 1 ? a : T{1}) : T{0};
  }
};

template <Rounding kRounding>
struct ToBf16 {
  uint16_t operator()(float a) const { return bf16_of<kRounding>(a); }
};
template <Rounding kRounding>
struct ToF16 {
  uint16_t operator()(float a) const { return f16_of<kRounding>(a); }
};
template <class F>
struct Relu {
  uint16_t operator()(float a) const { return F{}(a < 0 ? 0.0f : a); }
};
// cvt.rn.bf16x2.f32 d, a, b: a goes into the upper half.
template <class F>
struct Pair {
  uint32_t operator()(float a, float b) const { return static_cast<uint32_t>(F{}(a)) << 16 | F{}(b); }
};
struct FromBf16 {
  float operator()(uint16_t a) const { return f32_of_bf16(a); }
};
struct FromF16 {
  float operator()(uint16_t a) const { return f32_of_f16(a); }
};
template <class F, class D, Direction kDirection>
struct HalfToInteger {
  D operator()(uint16_t a) const { return ToInteger<D, kDirection>{}(F{}(a)); }
};
// An integer rounded once: to f32 only where that is exact, else by way of double, which is exact for 32 bits.
// Rounding a double to f32 and then to a half could round twice; half values beyond 2048 differ by 2 or more, far
// from the last place of f32, but ties are decided by what was rounded off: so the low bits are kept as one sticky
// bit.
template <class F>
struct IntegerToHalf {
  template <class A>
  uint16_t operator()(A a) const {
    const bool negative = a < 0;
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
    int shift = 0;
    while (magnitude >> 23) {  // f32 holds 24 bits
      magnitude = magnitude >> 1 | (magnitude & 1);
      ++shift;
    }
    const float value = std::ldexp(static_cast<float>(magnitude), shift);
    return F{}(negative ? -value : value);
  }
};

// f32 with its low 13 bits cleared, as the tensor cores take it; ties away from zero (.rna).
struct ToTf32 {
  uint32_t operator()(float a) const {
    const uint32_t bits = std::bit_cast<uint32_t>(a);
    if ((bits & 0x7f800000) == 0x7f800000) return a != a ? 0x7fffffff : bits;
    return (bits + 0x1000) & ~uint32_t{0x1fff};
  }
};

template <int kMode, class D, class A>
void directed(Warp& w, const Instruction& i, uint32_t lanes) {
  const A* a = w.at<A>(i.a);
  D result[kLanes];
  std::fesetround(kMode);
  for (int l = 0; l < kLanes; ++l) {
    volatile A x = a[l];
    volatile D r = static_cast<D>(x);
    result[l] = r;
  }
  std::fesetround(FE_TONEAREST);
  store_lanes(w.at<D>(i.dst), result, lanes);
}

class Conversions {
 public:
  explicit Conversions(Forms& table) : table_(table) {}

  // d, a: names of the types, whose values handlers see; narrow ones stand in registers of 16 bits at least.
  template <class D, class A>
  void put(const std::string& options, const std::string& d, const std::string& a, Handler handler) {
    table_["cvt" + options + "." + d + "." + a] = {.shape = Shape::convert,
                                                   .handler = handler,
                                                   .dst_bytes = sizeof(D),
                                                   .a_bytes = sizeof(A),
                                                   .b_bytes = sizeof(A)};
  }

  template <class D>
  void to_integer(const std::string& d) {
    const auto from = [&]<class A>(const std::string& a, A) {
      put<D, A>("", d, a, unary<D, A, To<D>>);
      put<D, A>(".sat", d, a, unary<D, A, Saturated<D>>);
    };
    from("u8", uint8_t{});
    from("s8", int8_t{});
    from("u16", uint16_t{});
    from("s16", int16_t{});
    from("u32", uint32_t{});
    from("s32", int32_t{});
    from("u64", uint64_t{});
    from("s64", int64_t{});
    from_float<D, float>(d, "f32");
    from_float<D, double>(d, "f64");
    from_half<D, FromF16>(d, "f16");
    from_half<D, FromBf16>(d, "bf16");
    put<float, D>(".rn", "f32", d, unary<float, D, To<float>>);
    put<float, D>(".rz", "f32", d, directed<FE_TOWARDZERO, float, D>);
    put<float, D>(".rm", "f32", d, directed<FE_DOWNWARD, float, D>);
    put<float, D>(".rp", "f32", d, directed<FE_UPWARD, float, D>);
    put<double, D>(".rn", "f64", d, unary<double, D, To<double>>);
    put<double, D>(".rz", "f64", d, directed<FE_TOWARDZERO, double, D>);
    put<uint16_t, D>(".rn", "f16", d, unary<uint16_t, D, IntegerToHalf<ToF16<Rounding::nearest>>>);
    put<uint16_t, D>(".rn", "bf16", d, unary<uint16_t, D, IntegerToHalf<ToBf16<Rounding::nearest>>>);
  }

  template <class T>
  void within_float(const std::string& t) {
    put<T, T>(".sat", t, t, unary<T, T, ToUnitInterval>);
    put<T, T>(".rni", t, t, unary<T, T, Integral<Direction::nearest>>);
    put<T, T>(".rzi", t, t, unary<T, T, Integral<Direction::zero>>);
    put<T, T>(".rmi", t, t, unary<T, T, Integral<Direction::down>>);
    put<T, T>(".rpi", t, t, unary<T, T, Integral<Direction::up>>);
  }

  template <template <Rounding> class F>
  void half(const std::string& h) {
    put<uint16_t, float>(".rn", h, "f32", unary<uint16_t, float, F<Rounding::nearest>>);
    put<uint16_t, float>(".rz", h, "f32", unary<uint16_t, float, F<Rounding::zero>>);
    put<uint16_t, float>(".rn.relu", h, "f32", unary<uint16_t, float, Relu<F<Rounding::nearest>>>);
    put<uint32_t, float>(".rn", h + "x2", "f32", binary<uint32_t, float, float, Pair<F<Rounding::nearest>>>);
    put<uint32_t, float>(".rz", h + "x2", "f32", binary<uint32_t, float, float, Pair<F<Rounding::zero>>>);
    put<uint32_t, float>(".rn.relu", h + "x2", "f32", binary<uint32_t, float, float, Pair<Relu<F<Rounding::nearest>>>>);
  }

  Forms& table() { return table_; }

 private:
  template <class D, class A>
  void from_float(const std::string& d, const std::string& a) {
    put<D, A>(".rni", d, a, unary<D, A, ToInteger<D, Direction::nearest>>);
    put<D, A>(".rzi", d, a, unary<D, A, ToInteger<D, Direction::zero>>);
    put<D, A>(".rmi", d, a, unary<D, A, ToInteger<D, Direction::down>>);
    put<D, A>(".rpi", d, a, unary<D, A, ToInteger<D, Direction::up>>);
  }
  template <class D, class F>
  void from_half(const std::string& d, const std::string& a) {
    put<D, uint16_t>(".rni", d, a, unary<D, uint16_t, HalfToInteger<F, D, Direction::nearest>>);
    put<D, uint16_t>(".rzi", d, a, unary<D, uint16_t, HalfToInteger<F, D, Direction::zero>>);
    put<D, uint16_t>(".rmi", d, a, unary<D, uint16_t, HalfToInteger<F, D, Direction::down>>);
    put<D, uint16_t>(".rpi", d, a, unary<D, uint16_t, HalfToInteger<F, D, Direction::up>>);
  }
  Forms& table_;
};

// Generic addresses: global memory is itself, shared and local memory have windows of their own.
template <uint64_t kAdd>
void add_window(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = w.at<uint64_t>(i.a);
  uint64_t result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = a[l] + kAdd;
  store_lanes(w.at<uint64_t>(i.dst), result, lanes);
}
}  // namespace

void add_conversions(Forms& table) {
  Conversions c(table);
  c.to_integer<uint8_t>("u8");
  c.to_integer<int8_t>("s8");
  c.to_integer<uint16_t>("u16");
  c.to_integer<int16_t>("s16");
  c.to_integer<uint32_t>("u32");
  c.to_integer<int32_t>("s32");
  c.to_integer<uint64_t>("u64");
  c.to_integer<int64_t>("s64");
  c.within_float<float>("f32");
  c.within_float<double>("f64");
  c.half<ToF16>("f16");
  c.half<ToBf16>("bf16");
  c.put<float, uint16_t>("", "f32", "f16", unary<float, uint16_t, FromF16>);
  c.put<float, uint16_t>("", "f32", "bf16", unary<float, uint16_t, FromBf16>);
  c.put<double, float>("", "f64", "f32", unary<double, float, To<double>>);
  c.put<float, double>(".rn", "f32", "f64", unary<float, double, To<float>>);
  c.put<float, double>(".rz", "f32", "f64", directed<FE_TOWARDZERO, float, double>);
  c.put<float, double>(".rm", "f32", "f64", directed<FE_DOWNWARD, float, double>);
  c.put<float, double>(".rp", "f32", "f64", directed<FE_UPWARD, float, double>);
  c.put<uint32_t, float>(".rna", "tf32", "f32", unary<uint32_t, float, ToTf32>);

  const auto window = [&](const char* name, Handler handler) {
    table[name] = {.handler = handler, .dst_bytes = 8, .a_bytes = 8};
  };
  window("cvta.global.u64", add_window<0>);
  window("cvta.to.global.u64", add_window<0>);
  window("cvta.const.u64", add_window<0>);
  window("cvta.to.const.u64", add_window<0>);
  window("cvta.shared.u64", add_window<kSharedWindow>);
  window("cvta.to.shared.u64", add_window<0 - kSharedWindow>);
  window("cvta.local.u64", add_window<kLocalWindow>);
  window("cvta.to.local.u64", add_window<0 - kLocalWindow>);
}

}  // namespace duet::softgpu
