// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a contract (ops/): slots and tensors, how inputs are filled, the tolerance, and what the reference
// reads and claims. Every contract includes this file. How cases are written stands in core/cases.h; how a contract is
// registered and used with its type erased, in core/registry.h.
#pragma once
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cases.h"
#include "core/dtype.h"

namespace duet {

using Shape = std::vector<int64_t>;

enum class Role : uint8_t { in, out, inout };
const char* name_of(Role);

// How a tensor's values are drawn. A contract gives each input a fill that makes its data meaningful; a case can name
// another one for an input x, in one of these notations:
//   x=-1..1          uniform in [-1, 1)
//   x=normal:0:2     normal, with mean 0 and standard deviation 2
//   x=0.7            that value everywhere; nan, inf and -inf are values as well
//   x=below:10       whole numbers in [0, 10)
//   x=last:nan       as the contract says, but the last element is the value
//   x=edges          zeros, the smallest and the largest subnormal and normal numbers, ones and their neighbours; +-
//   x=edges+inf      edges and infinities
//   x=edges+inf+nan  edges, infinities and NaN with several payloads
//   x=subnormal      subnormal numbers of both signs
//   x=halfway        halfway between two neighbours of bf16 or f16, and as close to that as the tensor's dtype allows
struct Fill {
  enum class Kind : uint8_t {
    uniform,   // [a, b)
    normal,    // mean a, standard deviation b
    constant,  // a
    below,     // whole numbers in [0, a)
    edges,
    edges_inf,
    edges_inf_nan,
    subnormal,
    halfway,
  } kind = Kind::uniform;
  double a = -1, b = 1;
  std::optional<double> last = {};  // value of the last element

  static constexpr Fill uniform(double lo, double hi) { return {Kind::uniform, lo, hi}; }
  static constexpr Fill normal(double mean, double deviation) { return {Kind::normal, mean, deviation}; }
  static constexpr Fill constant(double value) { return {Kind::constant, value, 0}; }
  static constexpr Fill below(int64_t n) { return {Kind::below, static_cast<double>(n), 0}; }
  // From the text behind x=. `contract`: the fill that the contract gives x. Throws Error that lists the notations.
  static Fill from(std::string_view text, const Fill& contract);
};

struct TensorSpec {
  const char* name;
  Role role;
  DType dtype;
  Shape shape;
  Fill fill;
  int64_t touched = -1;  // elements that one run reads or writes, when not all of them
  uint32_t inputs = 0;   // see Slot::may_be

  int64_t elements() const;       // throws Error when the product of the shape does not fit
  int64_t bytes() const;          // of the whole tensor
  int64_t traffic_bytes() const;  // compulsory: what is touched, twice for inout
  TensorSpec touching(int64_t n) const;
  bool may_be(const TensorSpec& input, size_t i) const;  // whether this output may have the memory of `input`, tensor i
};

// A tensor's place in a problem: position in tensors() and Args, name on the command line, role.
struct Slot {
  int index;
  const char* name;
  Role role;
  uint32_t inputs = 0;  // bit i: the output may have the memory of tensor i

  // The output may have the memory of one of these inputs, where both have the same element type and size: y may be x.
  // No two tensors overlap in another way. Op tests run every implementation in each way that a contract allows.
  constexpr Slot may_be(std::same_as<Slot> auto... slots) const {
    return {index, name, role, inputs | ((uint32_t{1} << slots.index) | ...)};
  }
  TensorSpec of(DType dtype, Shape shape, Fill fill = {}) const {
    return {name, role, dtype, std::move(shape), fill, -1, inputs};
  }
};
constexpr Slot input(int index, const char* name) { return {index, name, Role::in}; }
constexpr Slot output(int index, const char* name) { return {index, name, Role::out}; }
constexpr Slot inout(int index, const char* name) { return {index, name, Role::inout}; }

// |got - want| <= rel * |want| + abs_sum * (sum of the absolute terms that were added up) + abs.
// abs_sum serves sums that cancel (GEMM); abs serves only results near the smallest normal number.
// Where all three are 0, as for a copy, zeros must have the right sign as well.
struct Tolerance {
  double rel = 0, abs_sum = 0, abs = 0;
  bool moves_bits() const { return rel == 0 && abs_sum == 0 && abs == 0; }
};

// n roundings in sequence with unit roundoff u: gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability, 3.1).
inline double gamma(double n, double u) { return n * u / (1 - std::fmin(0.5, n * u)); }

// Shapes of given input tensors, for infer(). Throws Error on an index beyond a tensor's rank and on a tensor that was
// not given.
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

// A dimension of a product along which the outputs are linear, entry by entry: entry j of an output depends on entry j
// of some inputs only, and linearly. A weighted sum of entries of an output is then an output of a smaller problem,
// which has the sums of those inputs: see core/projection.h. A contract states it as `linear_axis()`.
struct LinearAxis {
  struct Axis {
    Slot slot;
    size_t axis;  // in its shape
  };
  const char* attribute;   // the dimension, such as "n"
  int64_t extent;          // its entries within one group
  int64_t groups;          // the attribute is groups * extent
  std::vector<Axis> axes;  // of the inputs and outputs that have it: of `extent` entries, or of all groups
};

// What the reference reads: any dtype as double. An inout tensor holds its values from before the call.
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

// What the reference says: claims about single elements of outputs.
class Expect {
 public:
  virtual ~Expect() = default;
  void operator()(Slot s, int64_t index, double want) { claim(s.index, index, want, 0); }
  // abs_sum: the sum of the absolute values of the terms that were added up to `want`; see Tolerance::abs_sum.
  void operator()(Slot s, int64_t index, double want, double abs_sum) { claim(s.index, index, want, abs_sum); }

 private:
  virtual void claim(int slot, int64_t index, double want, double abs_sum) = 0;
};

}  // namespace duet
