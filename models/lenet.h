// SPDX-License-Identifier: Apache-2.0
// LeNet on colour images of 32x32, as in PyTorch's first tutorial: two convolutions of 5x5 with relu and max pooling, then
// 400-120-84-10; softmax cross-entropy, SGD with momentum 0.9. LeCun et al., Gradient-based learning applied to document
// recognition, 1998.
#pragma once
#include "models/model.h"

namespace duet {

struct LeNet {
  static constexpr const char* name = "lenet";
  static constexpr int64_t kSide = 32, kColours = 3, kClasses = 10;
  static constexpr double kMomentum = 0.9, kRate = 1e-3;

  int64_t batch = 4;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option(
        "mixed", mixed,
        "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<LeNet>> cases(Scale scale) {
    if (scale == Scale::test) return {{"an odd batch", {3}}};
    return {{"one image", {1}},
            {"the tutorial's batch: what does a call cost?", {4}},
            {"between them, for the break-even", {16}},
            {"the usual batch", {64}},
            {"large enough to fill a device?", {256}},
            {"the usual batch, mixed precision", {64, DType::bf16, true}},
            {"the usual batch, mixed precision with loss scaling", {64, DType::f16, true}}};
  }
};

}  // namespace duet
