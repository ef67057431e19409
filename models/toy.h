// SPDX-License-Identifier: Apache-2.0
// The smallest model that learns something: 10-10-1, relu, binary cross-entropy, Adam. Its step is all overhead.
#pragma once
#include "models/model.h"

namespace duet {

struct Toy {
  static constexpr const char* name = "toy";
  static constexpr int64_t kIn = 10, kHidden = 10;
  static constexpr double kRate = 1e-3;

  int64_t batch = 32;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<Toy>> cases(Scale scale) {
    if (scale == Scale::test) return {{"an odd batch", {7}}};
    return {{"all overhead: what do calls cost?", {32}}};
  }
};

}  // namespace duet
