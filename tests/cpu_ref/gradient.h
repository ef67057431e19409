// SPDX-License-Identifier: Apache-2.0
// check_gradient(): compares the backward pass of a reference with finite differences of its forward pass, in double.
// Tensors are matched by name: the backward pass gets x and y from the forward pass, `dy` is drawn, and `dx` must be
// the gradient of sum dy y. Used by gradients_*_test.cpp: add a line there for a new backward pass.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/session.h"

namespace duet {

namespace gradient {

inline int find(const HostTensors& tensors, const std::string& name) {
  for (size_t s = 0; s < tensors.size(); ++s)
    if (tensors.specs()[s].name == name) return static_cast<int>(s);
  return -1;
}
inline double* doubles(HostTensors& tensors, int slot) {
  return static_cast<double*>(tensors.data(static_cast<size_t>(slot)));
}
inline void copy(HostTensors& to, size_t slot, const HostTensors& from, int from_slot) {
  to.allocate(slot);
  const auto bytes = static_cast<size_t>(to.specs()[slot].bytes());
  if (bytes) std::memcpy(to.data(slot), from.data(static_cast<size_t>(from_slot)), bytes);
}

class Gradient {
 public:
  Gradient(const Problem& forward, const Problem& backward)
      : forward_(forward.with("dtype", "f64")),
        backward_(backward.with("dtype", "f64")),
        in_(draw_inputs(forward_, FillMode::values, 1)),
        out_(run_reference(forward_, in_)),
        given_(draw_inputs(backward_, FillMode::values, 2)) {
    for (size_t s = 0; s < given_.size(); ++s) {
      const TensorSpec& spec = given_.specs()[s];
      if (spec.role != Role::in) continue;
      const int slot = find(in_, spec.name);
      if (slot >= 0) copy(given_, s, in_.specs()[static_cast<size_t>(slot)].role == Role::in ? in_ : out_, slot);
    }
    got_ = run_reference(backward_, given_);
  }

  // Number of elements of inputs whose gradient was compared.
  int check() {
    int compared = 0;
    for (size_t s = 0; s < in_.size(); ++s) {
      const int gradient = find(got_, std::string("d") + in_.specs()[s].name);
      if (in_.specs()[s].role != Role::in || gradient < 0) continue;
      for (int64_t i = 0; i < in_.specs()[s].elements(); ++i, ++compared) {
        const double want = slope(static_cast<int>(s), i), got = doubles(got_, gradient)[i];
        EXPECT_TRUE(std::abs(got - want) <= 1e-7 * (loss_weight() + std::abs(want)))
            << backward_.name() << " " << backward_.label() << " d" << in_.specs()[s].name << "[" << i << "]: got "
            << got << ", finite difference " << want;
      }
    }
    return compared;
  }

 private:
  static constexpr double kStep = 1e-5;  // error: kStep^2 times the third derivative, 2^-53 / kStep times the value

  double slope(int slot, int64_t i) {
    double* x = doubles(in_, slot) + i;
    const double at = *x;
    *x = at + kStep;
    const double above = objective();
    *x = at - kStep;
    const double below = objective();
    *x = at;
    return (above - below) / (2 * kStep);
  }

  // The factor of a scaled loss.
  double loss_weight() {
    const int scale = find(given_, "scale");
    return scale >= 0 && find(out_, "loss") >= 0 ? doubles(given_, scale)[0] : 1;
  }

  // The sum of all outputs, each element weighted by the gradient that the backward pass is given for it. A loss has
  // the weight 1 or its scale. Outputs without a gradient, or with an empty one, are left out.
  double objective() {
    HostTensors out = run_reference(forward_, in_);
    double sum = 0;
    for (size_t s = 0; s < out.size(); ++s) {
      const TensorSpec& spec = out.specs()[s];
      if (spec.role != Role::out || spec.dtype != DType::f64) continue;
      const int weight = find(given_, std::string("d") + spec.name);
      const bool loss = std::string(spec.name) == "loss";
      if (!loss && (weight < 0 || given_.specs()[static_cast<size_t>(weight)].elements() == 0)) continue;
      for (int64_t i = 0; i < spec.elements(); ++i)
        sum += (loss ? loss_weight() : doubles(given_, weight)[i]) * doubles(out, static_cast<int>(s))[i];
    }
    return sum;
  }

  Problem forward_, backward_;
  HostTensors in_, out_, given_, got_;
};

}  // namespace gradient

// Number of elements of inputs whose gradient was compared.
inline int check_gradient(const auto& forward, const auto& backward) {
  return gradient::Gradient(Problem::of(forward), Problem::of(backward)).check();
}

}  // namespace duet
