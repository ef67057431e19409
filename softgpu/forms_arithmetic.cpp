// SPDX-License-Identifier: Apache-2.0
// Integers, bits, predicates and moves. Semantics: PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift
// Instructions", "Comparison and Selection Instructions", "Data Movement".
#include <bit>
#include <ctime>
#include <limits>
#include <string>
#include <type_traits>

#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

template <class T>
struct Wider;
template <>
struct Wider<uint16_t> : std::type_identity<uint32_t> {};
template <>
struct Wider<int16_t> : std::type_identity<int32_t> {};
template <>
struct Wider<uint32_t> : std::type_identity<uint64_t> {};
template <>
struct Wider<int32_t> : std::type_identity<int64_t> {};
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;
template <>
struct Wider<uint64_t> : std::type_identity<Uint128> {};
template <>
struct Wider<int64_t> : std::type_identity<Int128> {};

// Unsigned arithmetic, where an overflow is defined; of at least the width of int.
template <class T>
constexpr auto bits_of(T value) {
  if constexpr (sizeof(T) < 4)
    return static_cast<uint32_t>(value);
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}

struct Copy {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(bits_of(a) + bits_of(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(bits_of(a) - bits_of(b));
  }
};
struct MulLow {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(bits_of(a) * bits_of(b));
  }
};
struct MulHigh {
  template <class T>
  T operator()(T a, T b) const {
    using W = typename Wider<T>::type;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (sizeof(T) * 8));
  }
};
struct MulWide {
  template <class T>
  auto operator()(T a, T b) const {
    using W = typename Wider<T>::type;
    return static_cast<W>(static_cast<W>(a) * static_cast<W>(b));
  }
};
// c plus the products of the four bytes of a and b.
struct Dp4a {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    uint32_t sum = bits_of(c);
    for (int i = 0; i < 32; i += 8) {
      const int product = int{static_cast<int8_t>(a >> i)} * static_cast<int8_t>(b >> i);
      sum += static_cast<uint32_t>(product);
    }
    return static_cast<int32_t>(sum);
  }
};
struct MadLow {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(bits_of(a) * bits_of(b) + bits_of(c));
  }
};
struct MadHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(bits_of(MulHigh{}(a, b)) + bits_of(c));
  }
};
struct MadWide {
  template <class T, class W>
  W operator()(T a, T b, W c) const {
    return static_cast<W>(bits_of(MulWide{}(a, b)) + bits_of(c));
  }
};
// The result of a division by zero is not specified; the GPU gives all ones, and the dividend as the remainder.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - bits_of(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(0 - bits_of(a));
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? static_cast<T>(0 - bits_of(a)) : a;
  }
};
struct Complement {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
// Shifts by the width or more give 0, or the sign.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t by) const {
    return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(bits_of(a) << by);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t by) const {
    constexpr uint32_t kBits = sizeof(T) * 8;
    if (by < kBits) return static_cast<T>(a >> by);
    return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  }
};
struct PopulationCount {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct ReverseBits {
  template <class T>
  T operator()(T a) const {
    T r = 0;
    for (size_t i = 0; i < sizeof(T) * 8; ++i) r |= (a >> i & 1) << (sizeof(T) * 8 - 1 - i);
    return r;
  }
};
// Position of the highest bit that is set (of a negative number: that is not set), or all ones.
struct FindHighest {
  template <class T>
  uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(a < 0 ? ~a : a);
    return bits == 0 ? 0xffffffff
                     : static_cast<uint32_t>(sizeof(T) * 8 - 1) - static_cast<uint32_t>(std::countl_zero(bits));
  }
};
// Each nibble of c chooses a byte of {b, a}; its highest bit replicates that byte's sign instead.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t choice = c >> (4 * i) & 15;
      uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (choice & 7))) & 255;
      if (choice & 8) byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
template <bool kClamp>
struct FunnelLeft {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t by) const {
    by = kClamp ? Min{}(by, uint32_t{32}) : by & 31;
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) << by >> 32);
  }
};
template <bool kClamp>
struct FunnelRight {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t by) const {
    by = kClamp ? Min{}(by, uint32_t{32}) : by & 31;
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> by);
  }
};

// bfe: `b` is the first bit and `c` the number of bits; beyond the value, its sign goes on.
template <class T>
void extract_bits(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  const T* a = w.at<T>(i.a);
  const uint32_t* first = w.at<uint32_t>(i.b);
  const uint32_t* length = w.at<uint32_t>(i.c);
  T result[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const uint32_t at = first[l] & 255, count = length[l] & 255;
    if (count == 0) {
      result[l] = 0;
      continue;
    }
    const T shifted = ShiftRight{}(a[l], at);
    if (count >= kBits) {
      result[l] = shifted;
      continue;
    }
    const uint32_t unused = kBits - count;
    // The sign is the field's last bit, or the value's where the field reaches beyond it.
    if (std::is_signed_v<T> && at + count > kBits)
      result[l] = shifted;
    else
      result[l] = static_cast<T>(static_cast<T>(bits_of(shifted) << unused) >> unused);
  }
  store_lanes(w.at<T>(i.dst), result, lanes);
}

// bfi: the low `d` bits of `a` replace those of `b` from bit `c` on.
template <class T>
void insert_bits(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const uint32_t* first = w.at<uint32_t>(i.c);
  const uint32_t* length = w.at<uint32_t>(i.d);
  T result[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const uint32_t at = first[l] & 255, count = length[l] & 255;
    const T field = count >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << count) - 1);
    const T mask = ShiftLeft{}(field, at);
    result[l] = static_cast<T>((b[l] & ~mask) | (ShiftLeft{}(a[l], at) & mask));
  }
  store_lanes(w.at<T>(i.dst), result, lanes);
}

// lop3: bit by bit, the table in `d` looked up with the bits of a, b and c.
void logic3(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t* a = w.at<uint32_t>(i.a);
  const uint32_t* b = w.at<uint32_t>(i.b);
  const uint32_t* c = w.at<uint32_t>(i.c);
  const uint32_t table = *w.at<uint32_t>(i.d);
  uint32_t result[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    result[l] = 0;
    for (uint32_t row = 0; row < 8; ++row)
      if (table >> row & 1) result[l] |= (row & 4 ? a[l] : ~a[l]) & (row & 2 ? b[l] : ~b[l]) & (row & 1 ? c[l] : ~c[l]);
  }
  store_lanes(w.at<uint32_t>(i.dst), result, lanes);
}

template <class T>
void select(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const uint32_t chosen = *w.at<uint32_t>(i.c);
  alignas(64) T result[kLanes];
  for (int l = 0; l < kLanes; ++l) result[l] = chosen >> l & 1 ? a[l] : b[l];
  store_lanes(w.at<T>(i.dst), result, lanes);
}

template <class F>
void predicates(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t a = *w.at<uint32_t>(i.a), b = i.b == kNone ? 0 : *w.at<uint32_t>(i.b);
  store_predicate(*w.at<uint32_t>(i.dst), F{}(a, b), lanes);
}
struct First {
  uint32_t operator()(uint32_t a, uint32_t) const { return a; }
};
struct NotFirst {
  uint32_t operator()(uint32_t a, uint32_t) const { return ~a; }
};

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};

// setp.lt.and.s32 p, a, b, q: the comparison combined with a predicate.
template <class F, class Combine, class T>
void compare_and_combine(Warp& w, const Instruction& i, uint32_t lanes) {
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const uint32_t with = *w.at<uint32_t>(i.c);
  uint32_t bits = 0;
  for (int l = 0; l < kLanes; ++l) bits |= static_cast<uint32_t>(F{}(a[l], b[l])) << l;
  if (i.dst != kNone) store_predicate(*w.at<uint32_t>(i.dst), Combine{}(bits, with), lanes);
  if (i.d != kNone) store_predicate(*w.at<uint32_t>(i.d), Combine{}(~bits, with), lanes);
}

void clock_ns(Warp& w, const Instruction& i, uint32_t lanes) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t result[kLanes];
  for (uint64_t& r : result) r = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  store_lanes(w.at<uint64_t>(i.dst), result, lanes);
}

void pause(Warp& w, const Instruction&, uint32_t) { w.yielded = true; }

template <class T>
void add_integer(Forms& table, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto form = [&](const std::string& name, Handler handler) {
    table[name + "." + type] = {
        .handler = handler, .dst_bytes = kBytes, .a_bytes = kBytes, .b_bytes = kBytes, .c_bytes = kBytes};
  };
  form("add", binary<T, T, T, Add>);
  form("sub", binary<T, T, T, Sub>);
  form("mul.lo", binary<T, T, T, MulLow>);
  form("mul.hi", binary<T, T, T, MulHigh>);
  form("mad.lo", ternary<T, T, T, MadLow>);
  form("mad.hi", ternary<T, T, T, MadHigh>);
  form("div", binary<T, T, T, Div>);
  form("rem", binary<T, T, T, Rem>);
  form("min", binary<T, T, T, Min>);
  form("max", binary<T, T, T, Max>);
  form("neg", unary<T, T, Negate>);
  if constexpr (std::is_signed_v<T>) form("abs", unary<T, T, Absolute>);
  table["shr." + type] = {.handler = binary<T, T, uint32_t, ShiftRight>, .dst_bytes = kBytes, .a_bytes = kBytes};
  if constexpr (kBytes < 8) {
    using W = typename Wider<T>::type;
    constexpr int kWide = sizeof(W);
    table["mul.wide." + type] = {
        .handler = binary<W, T, T, MulWide>, .dst_bytes = kWide, .a_bytes = kBytes, .b_bytes = kBytes};
    table["mad.wide." + type] = {.handler = ternary<W, T, W, MadWide>,
                                 .dst_bytes = kWide,
                                 .a_bytes = kBytes,
                                 .b_bytes = kBytes,
                                 .c_bytes = kWide};
  }
  if constexpr (kBytes >= 4) {
    table["bfe." + type] = {.handler = extract_bits<T>, .dst_bytes = kBytes, .a_bytes = kBytes};
    table["bfind." + type] = {.handler = unary<uint32_t, T, FindHighest>, .a_bytes = kBytes};
  }
}

template <class T>
void add_comparisons(Forms& table, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto form = [&]<class F>(const std::string& name, F) {
    const auto with = [&](const std::string& combine, Handler handler) {
      table["setp." + name + combine + "." + type] = {.shape = Shape::predicate,
                                                      .handler = handler,
                                                      .dst_bytes = 0,
                                                      .a_bytes = kBytes,
                                                      .b_bytes = kBytes,
                                                      .c_bytes = 0};
    };
    with("", compare<T, F>);
    with(".and", compare_and_combine<F, And, T>);
    with(".or", compare_and_combine<F, Or, T>);
    with(".xor", compare_and_combine<F, Xor, T>);
  };
  form("eq", Equal{});
  form("ne", NotEqual{});
  if (type[0] == 'b') return;
  form("lt", Less{});
  form("le", LessEqual{});
  form("gt", Greater{});
  form("ge", GreaterEqual{});
  if (type[0] == 's') return;
  form("lo", Less{});
  form("ls", LessEqual{});
  form("hi", Greater{});
  form("hs", GreaterEqual{});
}

template <class T>
void add_bits(Forms& table, const std::string& bits) {
  constexpr int kBytes = sizeof(T);
  const auto form = [&](const std::string& name, Handler handler) {
    table[name + bits] = {
        .handler = handler, .dst_bytes = kBytes, .a_bytes = kBytes, .b_bytes = kBytes, .c_bytes = kBytes};
  };
  form("and.b", binary<T, T, T, And>);
  form("or.b", binary<T, T, T, Or>);
  form("xor.b", binary<T, T, T, Xor>);
  form("not.b", unary<T, T, Complement>);
  table["shl.b" + bits] = {.handler = binary<T, T, uint32_t, ShiftLeft>, .dst_bytes = kBytes, .a_bytes = kBytes};
  table["shr.b" + bits] = {.handler = binary<T, T, uint32_t, ShiftRight>, .dst_bytes = kBytes, .a_bytes = kBytes};
  for (const std::string type : {"b", "u", "s", "f"}) {
    form("mov." + type, unary<T, T, Copy>);
    table["selp." + type + bits] = {
        .handler = select<T>, .dst_bytes = kBytes, .a_bytes = kBytes, .b_bytes = kBytes, .c_bytes = 0};
  }
  if constexpr (kBytes >= 4) {
    table["popc.b" + bits] = {.handler = unary<uint32_t, T, PopulationCount>, .a_bytes = kBytes};
    table["clz.b" + bits] = {.handler = unary<uint32_t, T, LeadingZeros>, .a_bytes = kBytes};
    form("brev.b", unary<T, T, ReverseBits>);
    table["bfi.b" + bits] = {.handler = insert_bits<T>, .dst_bytes = kBytes, .a_bytes = kBytes, .b_bytes = kBytes};
  }
}
}  // namespace

void add_arithmetic(Forms& table) {
  add_integer<uint16_t>(table, "u16");
  add_integer<int16_t>(table, "s16");
  add_integer<uint32_t>(table, "u32");
  add_integer<int32_t>(table, "s32");
  add_integer<uint64_t>(table, "u64");
  add_integer<int64_t>(table, "s64");
  add_comparisons<uint16_t>(table, "u16");
  add_comparisons<int16_t>(table, "s16");
  add_comparisons<uint16_t>(table, "b16");
  add_comparisons<uint32_t>(table, "u32");
  add_comparisons<int32_t>(table, "s32");
  add_comparisons<uint32_t>(table, "b32");
  add_comparisons<uint64_t>(table, "u64");
  add_comparisons<int64_t>(table, "s64");
  add_comparisons<uint64_t>(table, "b64");
  add_bits<uint16_t>(table, "16");
  add_bits<uint32_t>(table, "32");
  add_bits<uint64_t>(table, "64");
  const auto on_predicates = [&](const std::string& name, Handler handler) {
    table[name] = {.handler = handler, .dst_bytes = 0, .a_bytes = 0, .b_bytes = 0};
  };
  on_predicates("and.pred", predicates<And>);
  on_predicates("or.pred", predicates<Or>);
  on_predicates("xor.pred", predicates<Xor>);
  on_predicates("not.pred", predicates<NotFirst>);
  on_predicates("mov.pred", predicates<First>);
  table["dp4a.s32.s32"] = {.handler = ternary<int32_t, int32_t, int32_t, Dp4a>};
  table["prmt.b32"] = {.handler = ternary<uint32_t, uint32_t, uint32_t, Permute>};
  table["lop3.b32"] = {.handler = logic3};
  table["shf.l.wrap.b32"] = {.handler = ternary<uint32_t, uint32_t, uint32_t, FunnelLeft<false>>};
  table["shf.r.wrap.b32"] = {.handler = ternary<uint32_t, uint32_t, uint32_t, FunnelRight<false>>};
  table["shf.l.clamp.b32"] = {.handler = ternary<uint32_t, uint32_t, uint32_t, FunnelLeft<true>>};
  table["shf.r.clamp.b32"] = {.handler = ternary<uint32_t, uint32_t, uint32_t, FunnelRight<true>>};
  table["mov.u64.globaltimer"] = {.handler = clock_ns, .dst_bytes = 8};
  table["nanosleep.u32"] = {.shape = Shape::bare, .handler = pause};
}

}  // namespace duet::softgpu
