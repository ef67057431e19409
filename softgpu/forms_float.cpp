// SPDX-License-Identifier: Apache-2.0
// Floating point in f32 and f64. Rounding to nearest is the host's own; for the other directions the host's rounding
// mode is set around the loop. What PTX calls approximate is computed exactly and rounded: tests that pass here
// within their bounds say nothing of the last bits of a GPU's approximation. Semantics: PTX ISA, "Floating Point
// Instructions".
#include <cfenv>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Subnormal numbers become zeros of the same sign (.ftz).
inline float flushed(float a) { return std::fabs(a) < std::numeric_limits<float>::min() ? a * 0.0f : a; }

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Fma {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
// The number, where one operand is NaN; -0 is less than +0.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    T r = a < b ? a : b;
    r = b != b ? a : r;
    const T zero = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
    return a == b ? zero : r;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    T r = a > b ? a : b;
    r = b != b ? a : r;
    const T zero = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
    return a == b ? zero : r;
  }
};
template <class F>
struct WithNan {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : F{}(a, b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return std::fabs(a);
  }
};
struct Sqrt {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct ReciprocalSqrt {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct Exp2 {
  template <class T>
  T operator()(T a) const {
    return std::exp2(a);
  }
};
struct Log2 {
  template <class T>
  T operator()(T a) const {
    return std::log2(a);
  }
};
struct Tanh {
  template <class T>
  T operator()(T a) const {
    return std::tanh(a);
  }
};
struct Sin {
  template <class T>
  T operator()(T a) const {
    return std::sin(a);
  }
};
struct Cos {
  template <class T>
  T operator()(T a) const {
    return std::cos(a);
  }
};
// copysign.f32 d, a, b: the sign of a, the magnitude of b.
struct CopySign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

template <class F>
struct Flushing {
  float operator()(float a) const { return flushed(F{}(flushed(a))); }
  float operator()(float a, float b) const { return flushed(F{}(flushed(a), flushed(b))); }
  float operator()(float a, float b, float c) const { return flushed(F{}(flushed(a), flushed(b), flushed(c))); }
};

// Compilers take the rounding mode to be constant: the values pass through volatile, so that nothing moves out of here.
template <int kMode, class T, class F, int kOperands>
void rounded(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(kOperands > 1 ? i.b : i.a);
  const T* c = w.at<T>(kOperands > 2 ? i.c : i.a);
  T result[kLanes];
  std::fesetround(kMode);
  for (int l = 0; l < kLanes; ++l) {
    volatile T x = a[l], y = b[l], z = c[l], r;
    if constexpr (kOperands == 1)
      r = F{}(static_cast<T>(x));
    else if constexpr (kOperands == 2)
      r = F{}(static_cast<T>(x), static_cast<T>(y));
    else
      r = F{}(static_cast<T>(x), static_cast<T>(y), static_cast<T>(z));
    result[l] = r;
  }
  std::fesetround(FE_TONEAREST);
  store_lanes(w.at<T>(i.dst), result, lanes);
}

// Comparisons: the ordered ones are false where an operand is NaN, those with a `u` true.
struct Eq {
  bool operator()(auto a, auto b) const { return a == b; }
};
struct Ne {
  bool operator()(auto a, auto b) const { return a < b || a > b; }
};
struct Lt {
  bool operator()(auto a, auto b) const { return a < b; }
};
struct Le {
  bool operator()(auto a, auto b) const { return a <= b; }
};
struct Gt {
  bool operator()(auto a, auto b) const { return a > b; }
};
struct Ge {
  bool operator()(auto a, auto b) const { return a >= b; }
};
struct Equ {
  bool operator()(auto a, auto b) const { return !(a < b) && !(a > b); }
};
struct Neu {
  bool operator()(auto a, auto b) const { return !(a == b); }
};
struct Ltu {
  bool operator()(auto a, auto b) const { return !(a >= b); }
};
struct Leu {
  bool operator()(auto a, auto b) const { return !(a > b); }
};
struct Gtu {
  bool operator()(auto a, auto b) const { return !(a <= b); }
};
struct Geu {
  bool operator()(auto a, auto b) const { return !(a < b); }
};
struct IsNum {
  bool operator()(auto a, auto b) const { return a == a && b == b; }
};
struct IsNan {
  bool operator()(auto a, auto b) const { return a != a || b != b; }
};
template <class F>
struct FlushedCompare {
  bool operator()(float a, float b) const { return F{}(flushed(a), flushed(b)); }
};

enum class Combine { and_, or_, xor_ };
template <Combine kCombine, class T, class F>
void compare_and_combine(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const uint32_t with = *w.at<uint32_t>(i.c);
  uint32_t bits = 0;
  for (int l = 0; l < kLanes; ++l) bits |= static_cast<uint32_t>(F{}(a[l], b[l])) << l;
  const auto combined = [&](uint32_t p) {
    return kCombine == Combine::and_ ? p & with : kCombine == Combine::or_ ? p | with : p ^ with;
  };
  if (i.dst != kNone) store_predicate(*w.at<uint32_t>(i.dst), combined(bits), lanes);
  if (i.d != kNone) store_predicate(*w.at<uint32_t>(i.d), combined(~bits), lanes);
}

template <class T>
void add_comparisons(Forms& table, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto put = [&](const std::string& name, Handler handler) {
    table["setp." + name + "." + type] = {.shape = Shape::predicate,
                                          .handler = handler,
                                          .dst_bytes = 0,
                                          .a_bytes = kBytes,
                                          .b_bytes = kBytes,
                                          .c_bytes = 0};
  };
  const auto form = [&]<class F>(const std::string& name, F) {
    put(name, compare<T, F>);
    put(name + ".and", compare_and_combine<Combine::and_, T, F>);
    put(name + ".or", compare_and_combine<Combine::or_, T, F>);
    put(name + ".xor", compare_and_combine<Combine::xor_, T, F>);
    if constexpr (kBytes == 4) put(name + ".ftz", compare<T, FlushedCompare<F>>);
  };
  form("eq", Eq{});
  form("ne", Ne{});
  form("lt", Lt{});
  form("le", Le{});
  form("gt", Gt{});
  form("ge", Ge{});
  form("equ", Equ{});
  form("neu", Neu{});
  form("ltu", Ltu{});
  form("leu", Leu{});
  form("gtu", Gtu{});
  form("geu", Geu{});
  form("num", IsNum{});
  form("nan", IsNan{});
}

template <class T>
void add_float_type(Forms& table, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto put = [&](const std::string& name, Handler handler) {
    table[name + "." + type] = {
        .handler = handler, .dst_bytes = kBytes, .a_bytes = kBytes, .b_bytes = kBytes, .c_bytes = kBytes};
  };
  const auto one = [&]<class F>(const std::string& name, F) {
    put(name, unary<T, T, F>);
    if constexpr (kBytes == 4) put(name + ".ftz", unary<T, T, Flushing<F>>);
  };
  const auto two = [&]<class F>(const std::string& name, F) {
    put(name, binary<T, T, T, F>);
    if constexpr (kBytes == 4) put(name + ".ftz", binary<T, T, T, Flushing<F>>);
  };
  const auto three = [&]<class F>(const std::string& name, F) {
    put(name, ternary<T, T, T, F>);
    if constexpr (kBytes == 4) put(name + ".ftz", ternary<T, T, T, Flushing<F>>);
  };
  // In the directions that are not to nearest.
  const auto directed = [&]<class F, int kOperands>(const std::string& name, F,
                                                    std::integral_constant<int, kOperands>) {
    put(name + ".rz", rounded<FE_TOWARDZERO, T, F, kOperands>);
    put(name + ".rm", rounded<FE_DOWNWARD, T, F, kOperands>);
    put(name + ".rp", rounded<FE_UPWARD, T, F, kOperands>);
  };
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, 2> kTwo;
  constexpr std::integral_constant<int, 3> kThree;

  for (const std::string nearest : {"", ".rn"}) {
    two("add" + nearest, Add{});
    two("sub" + nearest, Sub{});
    two("mul" + nearest, Mul{});
  }
  three("fma.rn", Fma{});
  two("div.rn", Div{});
  one("sqrt.rn", Sqrt{});
  one("rcp.rn", Reciprocal{});
  directed("add", Add{}, kTwo);
  directed("sub", Sub{}, kTwo);
  directed("mul", Mul{}, kTwo);
  directed("fma", Fma{}, kThree);
  directed("div", Div{}, kTwo);
  directed("sqrt", Sqrt{}, kOne);
  directed("rcp", Reciprocal{}, kOne);
  two("min", Min{});
  two("max", Max{});
  two("min.NaN", WithNan<Min>{});
  two("max.NaN", WithNan<Max>{});
  one("neg", Negate{});
  one("abs", Absolute{});
  put("copysign", binary<T, T, T, CopySign>);

  one("rsqrt.approx", ReciprocalSqrt{});
  one("rcp.approx", Reciprocal{});
  if constexpr (kBytes == 4) {
    two("div.approx", Div{});
    two("div.full", Div{});
    one("sqrt.approx", Sqrt{});
    one("ex2.approx", Exp2{});
    one("lg2.approx", Log2{});
    one("sin.approx", Sin{});
    one("cos.approx", Cos{});
    put("tanh.approx", unary<T, T, Tanh>);
  }
}
}  // namespace

void add_float(Forms& table) {
  add_float_type<float>(table, "f32");
  add_float_type<double>(table, "f64");
  add_comparisons<float>(table, "f32");
  add_comparisons<double>(table, "f64");
}

}  // namespace duet::softgpu
