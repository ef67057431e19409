// SPDX-License-Identifier: Apache-2.0
// The loops behind the bandwidth ceilings (cpu_loops.h), with plain and with streaming (non-temporal) stores. No
// prefetch instructions: on Zen 4 they gained nothing in memory and lost a tenth within L1.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu_bandwidth.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <iterator>

#include "bench/cpu_loops.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {
using Floats = hn::ScalableTag<float>;
using Bits = hn::ScalableTag<uint32_t>;
constexpr float kScale = 0.999f;

// Four vectors a round hide the loop's own cost.
template <class Body>
HWY_INLINE void each_vector(int64_t floats, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  for (int64_t i = 0; i < floats; i += 4 * lanes) {
    body(i);
    body(i + lanes);
    body(i + 2 * lanes);
    body(i + 3 * lanes);
  }
}

template <bool kStreaming>
HWY_INLINE void store(hn::Vec<Floats> v, float* to) {
  if constexpr (kStreaming)
    hn::Stream(v, Floats(), to);
  else
    hn::Store(v, Floats(), to);
}
// Streaming stores must be visible before another thread is told that this one is done.
template <bool kStreaming>
HWY_INLINE void finish() {
  if constexpr (kStreaming) hwy::FlushStream();
}

template <bool kStreaming>
void copy(float* x, float* y, float*, int64_t floats) {
  each_vector(floats, [=](int64_t i) HWY_ATTR { store<kStreaming>(hn::Load(Floats(), x + i), y + i); });
  finish<kStreaming>();
}

template <bool kStreaming>
HWY_INLINE void fill(float* x, float with, int64_t floats) {
  const auto value = hn::Set(Floats(), with);
  each_vector(floats, [=](int64_t i) HWY_ATTR { store<kStreaming>(value, x + i); });
  finish<kStreaming>();
}

template <bool kStreaming>
void write(float* x, float*, float*, int64_t floats) {
  fill<kStreaming>(x, kScale, floats);
}

// Some CPUs move no data for a line of zeros: on Zen 4, streaming zeros take a half of the time of other values, and a
// third where zeros were before.
template <bool kStreaming>
void clear(float* x, float*, float*, int64_t floats) {
  fill<kStreaming>(x, 0, floats);
}

template <bool kStreaming>
void update(float* x, float*, float*, int64_t floats) {
  const auto s = hn::Set(Floats(), kScale);
  each_vector(floats, [=](int64_t i) HWY_ATTR { store<kStreaming>(hn::Mul(s, hn::Load(Floats(), x + i)), x + i); });
  finish<kStreaming>();
}

template <bool kStreaming>
void triad(float* x, float* y, float* z, int64_t floats) {
  const auto s = hn::Set(Floats(), kScale);
  each_vector(floats, [=](int64_t i) HWY_ATTR {
    store<kStreaming>(hn::MulAdd(s, hn::Load(Floats(), y + i), hn::Load(Floats(), x + i)), z + i);
  });
  finish<kStreaming>();
}

// Reads kStreams parts of the array side by side, which gives the prefetcher more streams to follow. XOR, since every
// vector port does it in one cycle.
template <int kStreams>
void read(float* x, float*, float*, int64_t floats) {
  constexpr int kSums = 8, kSumsOfPart = kSums / kStreams;
  const Bits d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t part = floats / kStreams;
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  auto a = hn::Zero(d), b = a, c = a, e = a, f = a, g = a, h = a, k = a;  // sizeless vectors form no array
  for (int64_t i = 0; i < part; i += kSumsOfPart * lanes) {
    const auto at = [=](int n)
                        HWY_ATTR { return hn::Load(d, bits + n / kSumsOfPart * part + i + n % kSumsOfPart * lanes); };
    a = hn::Xor(a, at(0));
    b = hn::Xor(b, at(1));
    c = hn::Xor(c, at(2));
    e = hn::Xor(e, at(3));
    f = hn::Xor(f, at(4));
    g = hn::Xor(g, at(5));
    h = hn::Xor(h, at(6));
    k = hn::Xor(k, at(7));
  }
  const auto all = hn::Xor(hn::Xor(hn::Xor(a, b), hn::Xor(c, e)), hn::Xor(hn::Xor(f, g), hn::Xor(h, k)));
  [[maybe_unused]] const volatile uint32_t used = hn::GetLane(all);
}

template <int kByte>
void fill_string(float* x, float*, float*, int64_t floats) {
  int64_t bytes = floats * int64_t{sizeof(float)};
  asm volatile("rep stosb" : "+D"(x), "+c"(bytes) : "a"(kByte) : "memory");
}

// The CPU's own copy instruction, which memcpy may use. On some CPUs it avoids reading what it overwrites, too.
void copy_string(float* x, float* y, float*, int64_t floats) {
  int64_t bytes = floats * int64_t{sizeof(float)};
  asm volatile("rep movsb" : "+S"(x), "+D"(y), "+c"(bytes) : : "memory");
}

constexpr bench::MemoryLoop kLoops[] = {
    {"write", 1, 1, write<false>},  {"write", 1, 1, write<true>},  {"write", 1, 1, fill_string<0x3f>},
    {"clear", 1, 1, clear<false>},  {"clear", 1, 1, clear<true>},  {"clear", 1, 1, fill_string<0>},
    {"read", 1, 1, read<1>},        {"read", 1, 1, read<2>},       {"copy", 2, 2, copy<false>},
    {"copy", 2, 2, copy<true>},     {"copy", 2, 2, copy_string},   {"update", 1, 2, update<false>},
    {"update", 1, 2, update<true>}, {"triad", 3, 3, triad<false>}, {"triad", 3, 3, triad<true>}};
}  // namespace

void list_loops(const bench::MemoryLoop*& first, const bench::MemoryLoop*& last) {
  first = std::begin(kLoops);
  last = std::end(kLoops);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(list_loops);
}

std::vector<bench::MemoryLoop> bench::memory_loops() {
  const MemoryLoop *first = nullptr, *last = nullptr;
  HWY_DYNAMIC_DISPATCH(list_loops)(first, last);
  return {first, last};
}

}  // namespace duet
#endif
