// SPDX-License-Identifier: Apache-2.0
// The words a contract (ops/) is written in: slots, tensors, fills, tolerances, cases, and what an oracle sees and says.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/dtype.h"

namespace duet {

using Shape = std::vector<int64_t>;

enum class Role : uint8_t { in, out, inout };
const char* name_of(Role);

// How a tensor's values are drawn. The problem knows what makes its data meaningful; the harness only draws.
struct Fill {
  enum class Kind : uint8_t { uniform, normal, constant, below } kind = Kind::uniform;
  double a = -1, b = 1;  // uniform: [a, b); normal: mean a, deviation b; constant: a; below: whole numbers in [0, a)
  static constexpr Fill uniform(double lo, double hi) { return {Kind::uniform, lo, hi}; }
  static constexpr Fill normal(double mean, double deviation) { return {Kind::normal, mean, deviation}; }
  static constexpr Fill constant(double value) { return {Kind::constant, value, 0}; }
  static constexpr Fill below(int64_t n) { return {Kind::below, static_cast<double>(n), 0}; }
};

struct TensorSpec {
  const char* name;
  Role role;
  DType dtype;
  Shape shape;
  Fill fill;
  int64_t touched = -1;  // elements that one run reads or writes, when not all of them

  int64_t elements() const;       // throws Error when the product of the shape does not fit
  int64_t bytes() const;          // of the whole tensor
  int64_t traffic_bytes() const;  // compulsory: what is touched, twice for inout
  TensorSpec touching(int64_t n) const;
};

// A tensor's place in a problem: position in tensors() and Args, name on the command line, role.
struct Slot {
  int index;
  const char* name;
  Role role;
  TensorSpec of(DType dtype, Shape shape, Fill fill = {}) const { return {name, role, dtype, std::move(shape), fill}; }
};
constexpr Slot input(int index, const char* name) { return {index, name, Role::in}; }
constexpr Slot output(int index, const char* name) { return {index, name, Role::out}; }
constexpr Slot inout(int index, const char* name) { return {index, name, Role::inout}; }

// |got - want| <= rel * |want| + terms * sum|terms| + abs. `terms` serves sums that cancel (GEMM); `abs` only underflow.
struct Tolerance {
  double rel = 0, abs_sum = 0, abs = 0;
};

// n roundings in sequence with unit roundoff u: gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability, 3.1).
inline double gamma(double n, double u) { return n * u / (1 - std::min(0.5, n * u)); }

enum class Scale : uint8_t { test, standard, full };  // small and awkward; published shapes; everything

template <class P>
struct Case {
  const char* why;  // the reason or the source of this shape
  P problem;
};

// Every case with every value of one attribute: across(&Softmax::dtype, kFloats, {{"one element", {1, 1}}, ...}).
template <class P, class T>
std::vector<Case<P>> across(T P::*attribute, const auto& values, std::type_identity_t<std::vector<Case<P>>> cases) {
  std::vector<Case<P>> all;
  for (const Case<P>& c : cases)
    for (const T& value : values) {
      all.push_back(c);
      all.back().problem.*attribute = value;
    }
  return all;
}
template <class P>
std::vector<Case<P>> concat(std::vector<Case<P>> a, std::type_identity_t<std::vector<Case<P>>> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Shapes of given input tensors, for infer(). Indexing past a tensor's rank or asking for a tensor that was not given throws.
class Shapes {
 public:
  struct Dims {
    const char* tensor;
    const Shape* shape;  // null: not given
    int64_t operator[](size_t axis) const;
  };
  explicit Shapes(std::vector<const Shape*> shapes) : shapes_(std::move(shapes)) {}
  bool has(Slot s) const { return shapes_[s.index] != nullptr; }
  Dims operator[](Slot s) const { return {s.name, shapes_[s.index]}; }

 private:
  std::vector<const Shape*> shapes_;
};

// What an oracle reads: any dtype as double. An inout tensor holds its values from before the call.
class Inputs {
 public:
  struct Values {
    const void* data;
    DType dtype;
    double operator[](int64_t i) const {
      if (dtype == DType::f32) return static_cast<const float*>(data)[i];  // the common case, inline
      return load_as_double(data, dtype, i);
    }
  };
  explicit Inputs(std::span<const Values> tensors) : tensors_(tensors) {}
  Values operator[](Slot s) const { return tensors_[s.index]; }

 private:
  std::span<const Values> tensors_;
};

// What an oracle says: claims about single elements of outputs.
class Expect {
 public:
  virtual ~Expect() = default;
  void operator()(Slot s, int64_t index, double want) { claim(s.index, index, want, 0); }
  // abs_sum: the sum of the absolute values of the terms that were added up to `want`; see Tolerance::terms.
  void operator()(Slot s, int64_t index, double want, double abs_sum) { claim(s.index, index, want, abs_sum); }

 private:
  virtual void claim(int slot, int64_t index, double want, double abs_sum) = 0;
};

}  // namespace duet
