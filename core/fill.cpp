// SPDX-License-Identifier: Apache-2.0
#include "core/fill.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/checksum.h"
#include "core/denormals.h"
#include "core/philox.h"

namespace duet {
namespace {

constexpr int kIntegerReach = 3;  // integer fills draw from -3 .. 3: sums of 10^6 products stay below 2^24

double unit_interval(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

// The bits of a float of a dtype, sign bit excluded: exponent above `mantissa` bits.
struct Bits {
  int bits, mantissa;
  uint64_t infinity() const { return ((uint64_t{1} << (bits - 1)) - 1) >> mantissa << mantissa; }
  uint64_t smallest_normal() const { return uint64_t{1} << mantissa; }
  uint64_t one() const { return (infinity() >> (mantissa + 1)) << mantissa; }
};
Bits bits_of(DType t) {
  switch (t) {
    case DType::f64:
      return {64, 52};
    case DType::f32:
      return {32, 23};
    case DType::bf16:
      return {16, 7};
    default:
      return {16, 10};
  }
}
void store_bits(void* data, DType dtype, int64_t index, uint64_t bits) {
  const auto size = static_cast<size_t>(size_of(dtype));
  std::memcpy(static_cast<unsigned char*>(data) + static_cast<size_t>(index) * size, &bits, size);
}

// The bits without sign of Fill::Kind::edges, and of infinity and NaN where the kind has them.
std::vector<uint64_t> edge_bits(DType dtype, Fill::Kind kind) {
  const Bits b = bits_of(dtype);
  const uint64_t normal = b.smallest_normal(), infinity = b.infinity();
  std::vector<uint64_t> all{0, 1, normal - 1, normal, b.one() - 1, b.one(), b.one() + 1, infinity - 1};
  if (kind >= Fill::Kind::edges_inf) all.push_back(infinity);
  if (kind == Fill::Kind::edges_inf_nan) {
    all.push_back(infinity | normal >> 1);      // quiet, the usual one
    all.push_back(infinity | normal >> 1 | 1);  // with a payload that a shorter dtype cuts off
    all.push_back(infinity | (normal - 1));     // all bits: rounding as an integer would carry into the sign
    all.push_back(infinity | 1);                // signalling: only cutting it off would make it infinite
  }
  return all;
}

// An odd multiple of half a step of bf16 or f16, as Fill::Kind::halfway says; or its neighbour in dtype.
double draw_halfway(DType dtype, uint32_t bits, uint32_t more_bits) {
  constexpr double kSubnormalStep = 0x1p-24, kOverflow = 65520;  // of f16; kOverflow: halfway to infinity
  const uint32_t form = more_bits % 8, neighbour = (more_bits >> 3) % 3;
  const double odd = 2.0 * (bits % 1024) + 1;
  double value;
  if (form == 0) {
    value = odd * kSubnormalStep / 2;
  } else if (form == 1) {
    value = kOverflow;
  } else {
    const int significand_bits = form % 2 ? 8 : 11;  // of bf16, of f16: one bit more is halfway
    const double range = std::ldexp(1.0, significand_bits);
    const int exponent = static_cast<int>((more_bits >> 8) % 16) - 8;
    value = std::ldexp(range + std::fmod(odd, range), exponent - significand_bits);
  }
  if (bits & 0x80000000u) value = -value;
  if (neighbour == 0) return value;
  const double to = neighbour == 1 ? INFINITY : -INFINITY;
  return dtype == DType::f64 ? std::nextafter(value, to)
                             : std::nextafter(static_cast<float>(value), static_cast<float>(to));
}

double draw(const Fill& fill, FillMode mode, DType dtype, uint32_t bits, uint32_t more_bits) {
  if (fill.kind == Fill::Kind::constant) return fill.a;
  if (fill.kind == Fill::Kind::below) return std::floor(unit_interval(bits) * fill.a);
  if (mode == FillMode::integers || is_integer(dtype))
    return static_cast<int>(bits % (2 * kIntegerReach + 1)) - kIntegerReach;
  if (fill.kind == Fill::Kind::uniform) return fill.a + (fill.b - fill.a) * unit_interval(bits);
  if (fill.kind == Fill::Kind::halfway) return draw_halfway(dtype, bits, more_bits);
  const double radius = std::sqrt(-2 * std::log(unit_interval(bits)));  // Box-Muller
  return fill.a + fill.b * radius * std::cos(2 * std::numbers::pi * unit_interval(more_bits));
}

// Fills that are chosen by bits, not by value.
bool drawn_as_bits(const Fill& fill, FillMode mode, DType dtype) {
  return mode == FillMode::values && is_float(dtype) && fill.kind >= Fill::Kind::edges &&
         fill.kind <= Fill::Kind::subnormal;
}
uint64_t draw_bits(const Fill& fill, DType dtype, const std::vector<uint64_t>& edges, uint32_t bits) {
  const Bits b = bits_of(dtype);
  const uint64_t sign = uint64_t{bits >> 31} << (b.bits - 1);
  const uint64_t below = bits & 0x7fffffffu;
  if (fill.kind == Fill::Kind::subnormal) return sign | (1 + below % (b.smallest_normal() - 1));
  const uint64_t edge = edges[below % edges.size()];
  const bool looks_unwritten = edge == (uint64_t{1} << (b.bits - 1)) - 1;  // with a sign: 0xFF bytes (core/compare.cpp)
  return looks_unwritten ? edge : sign | edge;
}

}  // namespace

// Elements [first, first + count) of a tensor of `elements`, at `data`; first is a multiple of 4.
static void fill_part(void* data, DType dtype, int64_t elements, int64_t begin, int64_t count, const Fill& fill,
                      FillMode mode, uint64_t key) {
  constexpr int64_t kBlock = 4;  // elements of one Philox counter
  constexpr int64_t kSerialBlocks = kDrawnSerially / kBlock;
  const bool plain = dtype == DType::f32 && fill.kind == Fill::Kind::uniform && mode == FillMode::values;
  const bool as_bits = drawn_as_bits(fill, mode, dtype);
  const std::vector<uint64_t> edges = as_bits ? edge_bits(dtype, fill.kind) : std::vector<uint64_t>{};
  const bool needs_more = fill.kind == Fill::Kind::normal || fill.kind == Fill::Kind::halfway;
  const int64_t first_block = begin / kBlock;
  const auto fill_block = [&](int64_t block) {
    const auto counter = static_cast<uint64_t>(first_block + block);
    const Philox4 bits = philox4x32_10(counter, key);
    const Philox4 more = needs_more ? philox4x32_10(counter, ~key) : Philox4{};
    const int64_t first = block * kBlock, n = std::min(kBlock, count - first);
    for (int64_t j = 0; j < n; ++j)
      if (plain)  // the common large case without a call per element; the same value as below
        static_cast<float*>(data)[first + j] =
            static_cast<float>(fill.a + (fill.b - fill.a) * unit_interval(bits.v[j]));
      else if (as_bits)
        store_bits(data, dtype, first + j, draw_bits(fill, dtype, edges, bits.v[j]));
      else
        store_double(data, dtype, first + j, draw(fill, mode, dtype, bits.v[j], more.v[j]));
  };
  const auto fill_blocks = [&](const tbb::blocked_range<int64_t>& range) {
    const ScopedKeepDenormals keep;
    for (int64_t block = range.begin(); block < range.end(); ++block) fill_block(block);
  };
  const tbb::blocked_range<int64_t> all(0, ceil_div(count, kBlock), kSerialBlocks);
  if (all.is_divisible())
    tbb::parallel_for(all, fill_blocks);
  else
    fill_blocks(all);
  if (fill.last && count > 0 && begin + count == elements) store_double(data, dtype, count - 1, *fill.last);
}

void fill_values(void* data, DType dtype, int64_t elements, const Fill& fill, FillMode mode, uint64_t key) {
  fill_part(data, dtype, elements, 0, elements, fill, mode, key);
}

HostTensors::HostTensors(std::vector<TensorSpec> specs)
    : specs_(std::move(specs)), bytes_(specs_.size()), checksums_(specs_.size()) {}

void HostTensors::reserve(size_t slot) {
  bytes_[slot].resize(static_cast<size_t>(specs_[slot].bytes()));
  checksums_[slot].reset();
}

void HostTensors::allocate(size_t slot) {
  constexpr int64_t kTask = int64_t{2} << 20;
  const int64_t bytes = specs_[slot].bytes();
  reserve(slot);
  unsigned char* const data = bytes_[slot].data();
  if (bytes <= kTask)
    std::fill_n(data, bytes, static_cast<unsigned char>(0xFF));  // of nothing, too: an empty tensor has no memory
  else
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, bytes, kTask), [&](const auto& r) {
      std::memset(data + r.begin(), 0xFF, static_cast<size_t>(r.end() - r.begin()));
    });
}

uint64_t HostTensors::checksum(size_t slot) const {
  if (!checksums_[slot])
    checksums_[slot] = parallel_checksum(bytes_[slot].data(), static_cast<int64_t>(bytes_[slot].size()));
  return *checksums_[slot];
}

std::vector<Inputs::Values> HostTensors::values() const {
  std::vector<Inputs::Values> v(size());
  for (size_t s = 0; s < size(); ++s) v[s] = {bytes_[s].data(), specs_[s].dtype};
  return v;
}

void draw_part(const Problem& problem, const TensorSpec& spec, size_t slot, FillMode mode, uint64_t seed, int64_t first,
               int64_t count, void* to) {
  const uint64_t key = fill_key(seed, slot);
  const auto drawn = problem.drawn(static_cast<int>(slot));
  if (!drawn) return fill_part(to, spec.dtype, spec.elements(), first, count, spec.fill, mode, key);
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, count, 4096), [&](const auto& range) {
    for (int64_t i = range.begin(); i < range.end(); ++i)
      store_double(to, spec.dtype, i, drawn(first + i, philox_bits(static_cast<uint64_t>(first + i), key)));
  });
}

HostTensors draw_inputs(const Problem& problem, FillMode mode, uint64_t seed) {
  HostTensors host(problem.tensors());
  for (size_t s = 0; s < host.size(); ++s) {
    const TensorSpec& spec = host.specs()[s];
    if (spec.role == Role::out) continue;
    host.reserve(s);
    draw_part(problem, spec, s, mode, seed, 0, spec.elements(), host.data(s));
  }
  return host;
}

}  // namespace duet
