// SPDX-License-Identifier: Apache-2.0
// atom and red: lanes one after the other, in their order. Memory that an atomic updates must have been written before.
#include <cstring>
#include <string>
#include <type_traits>

#include "softgpu/access.h"
#include "softgpu/forms.h"
#include "softgpu/half.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

struct Add {
  template <class T>
  T operator()(T old, T value) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value));
    else
      return old + value;
  }
};
struct Min {
  template <class T>
  T operator()(T old, T value) const {
    return value < old ? value : old;
  }
};
struct Max {
  template <class T>
  T operator()(T old, T value) const {
    return old < value ? value : old;
  }
};
struct And {
  template <class T>
  T operator()(T old, T value) const {
    return old & value;
  }
};
struct Or {
  template <class T>
  T operator()(T old, T value) const {
    return old | value;
  }
};
struct Xor {
  template <class T>
  T operator()(T old, T value) const {
    return old ^ value;
  }
};
struct Exchange {
  template <class T>
  T operator()(T, T value) const {
    return value;
  }
};
// inc: counts up to the value, then starts at 0. dec: counts down, and starts at the value.
struct Increment {
  uint32_t operator()(uint32_t old, uint32_t value) const { return old >= value ? 0 : old + 1; }
};
struct Decrement {
  uint32_t operator()(uint32_t old, uint32_t value) const { return old == 0 || old > value ? value : old - 1; }
};
struct AddBf16 {
  uint16_t operator()(uint16_t old, uint16_t value) const { return bf16_of(f32_of_bf16(old) + f32_of_bf16(value)); }
};
struct AddF16 {
  uint16_t operator()(uint16_t old, uint16_t value) const { return f16_of(f32_of_f16(old) + f32_of_f16(value)); }
};
template <class F>
struct EachHalf {
  uint32_t operator()(uint32_t old, uint32_t value) const {
    const uint32_t low = F{}(static_cast<uint16_t>(old), static_cast<uint16_t>(value));
    return low | static_cast<uint32_t>(F{}(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(value >> 16))) << 16;
  }
};

template <Space kSpace, class T, class F>
void update(Warp& w, const Instruction& i, uint32_t lanes) {
  Pointers p;
  resolve<kSpace, sizeof(T), Access::update>(w, i, lanes, p);
  const T* value = w.at<T>(i.b);
  T before[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    std::memcpy(&before[l], p.data[l], sizeof(T));
    const T after = F{}(before[l], value[l]);
    std::memcpy(p.data[l], &after, sizeof(T));
  }
  if (i.dst != kNone) store_lanes(w.at<T>(i.dst), before, lanes);
}

template <Space kSpace, class T>
void compare_and_swap(Warp& w, const Instruction& i, uint32_t lanes) {
  Pointers p;
  resolve<kSpace, sizeof(T), Access::update>(w, i, lanes, p);
  const T* expected = w.at<T>(i.b);
  const T* value = w.at<T>(i.c);
  T before[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    std::memcpy(&before[l], p.data[l], sizeof(T));
    if (before[l] == expected[l]) std::memcpy(p.data[l], &value[l], sizeof(T));
  }
  store_lanes(w.at<T>(i.dst), before, lanes);
}

template <class T, class F>
void add_update(Forms& table, const std::string& op, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto put = [&](const std::string& space, Handler handler) {
    table["atom" + space + "." + op + "." + type] = {
        .shape = Shape::atomic, .handler = handler, .dst_bytes = kBytes, .b_bytes = kBytes, .c_bytes = kBytes};
    table["red" + space + "." + op + "." + type] = {.shape = Shape::reduce, .handler = handler, .b_bytes = kBytes};
  };
  for (const char* space : {"", ".global"}) put(space, update<Space::generic, T, F>);
  put(".shared", update<Space::shared, T, F>);
}

template <class T>
void add_swap(Forms& table, const std::string& type) {
  constexpr int kBytes = sizeof(T);
  const auto put = [&](const std::string& space, Handler handler) {
    table["atom" + space + ".cas." + type] = {
        .shape = Shape::atomic, .handler = handler, .dst_bytes = kBytes, .b_bytes = kBytes, .c_bytes = kBytes};
  };
  for (const char* space : {"", ".global"}) put(space, compare_and_swap<Space::generic, T>);
  put(".shared", compare_and_swap<Space::shared, T>);
  add_update<T, Exchange>(table, "exch", type);
  if constexpr (kBytes >= 4) {
    add_update<T, And>(table, "and", type);
    add_update<T, Or>(table, "or", type);
    add_update<T, Xor>(table, "xor", type);
  }
}

template <class T>
void add_numbers(Forms& table, const std::string& type) {
  add_update<T, Add>(table, "add", type);
  if constexpr (std::is_integral_v<T>) {
    add_update<T, Min>(table, "min", type);
    add_update<T, Max>(table, "max", type);
  }
}
}  // namespace

void add_atomics(Forms& table) {
  add_numbers<uint32_t>(table, "u32");
  add_numbers<int32_t>(table, "s32");
  add_numbers<uint64_t>(table, "u64");
  add_numbers<int64_t>(table, "s64");
  add_numbers<float>(table, "f32");
  add_numbers<double>(table, "f64");
  add_swap<uint16_t>(table, "b16");
  add_swap<uint32_t>(table, "b32");
  add_swap<uint64_t>(table, "b64");
  add_update<uint32_t, Increment>(table, "inc", "u32");
  add_update<uint32_t, Decrement>(table, "dec", "u32");
  add_update<uint16_t, AddF16>(table, "add.noftz", "f16");
  add_update<uint16_t, AddBf16>(table, "add.noftz", "bf16");
  add_update<uint32_t, EachHalf<AddF16>>(table, "add.noftz", "f16x2");
  add_update<uint32_t, EachHalf<AddBf16>>(table, "add.noftz", "bf16x2");
}

}  // namespace duet::softgpu
