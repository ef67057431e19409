// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al., JMLR 15, 2014) with inverted scaling: an element becomes 0 with probability p, the others
// are divided by 1 - p.
//   x, y, dy, dx: (n); mask: (n) u8, 0 or 1; offset: (1) i32; dense. y may be x, dx may be dy.
//   Arithmetic in f32 or better.
//   The random bits of element i are those of Philox4x32-10 for (seed, offset + i). The offset is read as unsigned,
//   the sum has 64 bits. A step that adds n to it draws fresh bits, also where it is a captured graph that is replayed.
#pragma once
#include <functional>
#include <string>

#include "core/philox.h"
#include "core/problem.h"
#include "ops/elementwise/chunk.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

// An element is kept where its 32 random bits are at least this threshold: p 2^32, rounded up. It has 64 bits because p
// = 1, which keeps nothing, makes it 2^32.
inline uint64_t dropout_threshold(double p) { return static_cast<uint64_t>(std::ceil(p * 4294967296.0)); }
inline double dropout_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }  // keeps the expectation of y
DUET_HD inline uint64_t dropout_index(int32_t offset, int64_t i) {
  return static_cast<uint32_t>(offset) + static_cast<uint64_t>(i);
}
DUET_HD inline bool dropout_keeps(uint64_t index, uint64_t seed, uint64_t threshold) {
  return philox_bits(index, seed) >= threshold;
}

struct Dropout {
  static constexpr const char* name = "dropout";
  static constexpr const char* formula =
      "mask[i] = philox(seed, offset + i) >= p 2^32,  y[i] = mask[i] ? x[i] / (1 - p) : 0";
  static constexpr Slot x = input(0, "x"), offset = input(1, "offset"), y = output(2, "y").may_be(x),
                        mask = output(3, "mask");
  static constexpr bool exact_on_integers = true;  // the test cases scale by 0, 1, 5/4 and 2

  int64_t n = 0;
  DType dtype = DType::f32;
  double p = 0.5;
  int64_t seed = 0;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("p", p, "probability to drop an element, 0 to 1");
    field.option("seed", seed, "key of the random numbers");
  }
  std::string invalid() const { return p >= 0 && p <= 1 ? "" : "p must lie in 0 to 1, is " + std::to_string(p); }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const {
    return {x.of(dtype, {n}), offset.of(DType::i32, {1}), y.of(dtype, {n}), mask.of(DType::u8, {n})};
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != offset.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(bits >> 12); };
  }
  double flops() const { return static_cast<double>(n); }
  // The scale and the product are rounded to f32, then y to dtype. The mask has no tolerance.
  Tolerance tolerance(int slot) const {
    if (slot == mask.index) return {};
    return {.rel = 2 * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/dropout.cpp

  static Cases cases(Scale scale) {
    const Cases odd{
        {"MLP: one in five, another seed", "n:1031 p:0.2 seed:-7"},
        {"drops nothing", "n:1031 p:0"},
        {"drops everything", "n:1031 p:1"},
        {"an offset that is negative as i32, and 2^32 within a pack", "n:1031 offset=-3"},
        {"drops infinities", "n:1031 x=inf"},
        {"drops NaN", "n:1031 x=nan"},
    };
    return elementwise_cases(scale, odd);
  }
};

struct DropoutBackward {
  static constexpr const char* name = "dropout_backward";
  static constexpr const char* formula = "dx[i] = mask[i] ? dy[i] / (1 - p) : 0";
  static constexpr Slot dy = input(0, "dy"), mask = input(1, "mask"), dx = output(2, "dx").may_be(dy);
  static constexpr bool exact_on_integers = true;  // as Dropout

  int64_t n = 0;
  DType dtype = DType::f32;
  double p = 0.5;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of dy and dx");
    field("n", n, "elements");
    field.option("p", p, "probability with which elements were dropped, 0 to 1");
  }
  std::string invalid() const { return p >= 0 && p <= 1 ? "" : "p must lie in 0 to 1, is " + std::to_string(p); }
  void infer(Shapes s) { n = s[dy][0]; }
  std::vector<TensorSpec> tensors() const { return {dy.of(dtype, {n}), mask.of(DType::u8, {n}), dx.of(dtype, {n})}; }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const {
    if (slot != mask.index) return {};
    return [](int64_t, uint32_t bits) { return static_cast<double>(bits >> 31); };
  }
  double flops() const { return static_cast<double>(n); }
  Tolerance tolerance() const {  // as Dropout
    return {.rel = 2 * unit_roundoff(DType::f32) + unit_roundoff(dtype), .abs = underflow(dtype)};
  }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t chunk, Expect& expect) const;  // cpu_ref/elementwise/dropout.cpp

  static Cases cases(Scale scale) {
    return elementwise_cases(scale, {{"drops infinities", "n:1031 dy=inf"}, {"drops NaN", "n:1031 dy=nan"}});
  }
};

}  // namespace duet
