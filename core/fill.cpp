// SPDX-License-Identifier: Apache-2.0
#include "core/fill.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/philox.h"

namespace duet {
namespace {

constexpr int kIntegerReach = 3;  // integer fills draw from -3 .. 3: sums of 10^6 products stay below 2^24

double unit_interval(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

double draw(const Fill& fill, FillMode mode, DType dtype, uint32_t bits, uint32_t more_bits) {
  switch (fill.kind) {
    case Fill::Kind::constant:
      return fill.a;
    case Fill::Kind::below:
      return std::floor(unit_interval(bits) * fill.a);
    default:
      break;
  }
  if (mode == FillMode::integers || !is_float(dtype))
    return static_cast<int>(bits % (2 * kIntegerReach + 1)) - kIntegerReach;
  if (fill.kind == Fill::Kind::uniform) return fill.a + (fill.b - fill.a) * unit_interval(bits);
  const double radius = std::sqrt(-2 * std::log(unit_interval(bits)));  // Box-Muller
  return fill.a + fill.b * radius * std::cos(2 * std::numbers::pi * unit_interval(more_bits));
}

}  // namespace

void fill_values(void* data, DType dtype, int64_t elements, const Fill& fill, FillMode mode, uint64_t key) {
  constexpr int64_t kBlock = 4;  // elements of one Philox counter
  const bool plain = dtype == DType::f32 && fill.kind == Fill::Kind::uniform && mode == FillMode::values;
  const auto fill_block = [&](int64_t block) {
    const auto counter = static_cast<uint64_t>(block);
    const Philox4 bits = philox4x32_10(counter, key);
    const Philox4 more = fill.kind == Fill::Kind::normal ? philox4x32_10(counter, ~key) : Philox4{};
    const int64_t first = block * kBlock, n = std::min(kBlock, elements - first);
    for (int64_t j = 0; j < n; ++j)
      if (plain)  // the common large case without a call per element; the same value as below
        static_cast<float*>(data)[first + j] =
            static_cast<float>(fill.a + (fill.b - fill.a) * unit_interval(bits.v[j]));
      else
        store_double(data, dtype, first + j, draw(fill, mode, dtype, bits.v[j], more.v[j]));
  };
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, ceil_div(elements, kBlock), 4096), [&](const auto& range) {
    for (int64_t block = range.begin(); block < range.end(); ++block) fill_block(block);
  });
}

HostTensors::HostTensors(std::vector<TensorSpec> specs) : specs_(std::move(specs)), images_(specs_.size()) {}

void HostTensors::allocate(size_t slot) { images_[slot].assign(static_cast<size_t>(specs_[slot].bytes()), 0xFF); }

std::vector<Inputs::Values> HostTensors::values() const {
  std::vector<Inputs::Values> v(size());
  for (size_t s = 0; s < size(); ++s) v[s] = {images_[s].data(), specs_[s].dtype};
  return v;
}

HostTensors draw_inputs(const Problem& problem, FillMode mode, uint64_t seed) {
  HostTensors host(problem.tensors());
  for (size_t s = 0; s < host.size(); ++s) {
    const TensorSpec& spec = host.specs()[s];
    if (spec.role == Role::out) continue;
    host.allocate(s);
    fill_values(host.data(s), spec.dtype, spec.elements(), spec.fill, mode, fill_key(seed, s));
  }
  return host;
}

}  // namespace duet
