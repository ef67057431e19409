// SPDX-License-Identifier: Apache-2.0
// A convolutional network for MNIST: 3x3 convolutions of 32 and 64 channels with relu, each followed by max pooling, then
// 1600-128-10; softmax cross-entropy, Adam.
#pragma once
#include "models/model.h"

namespace duet {

struct MnistCnn {
  static constexpr const char* name = "mnist_cnn";
  static constexpr int64_t kSide = 28, kClasses = 10;
  static constexpr double kRate = 1e-3;

  int64_t batch = 64;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<MnistCnn>> cases(Scale scale) {
    if (scale == Scale::test) return {{"an odd batch", {3}}};
    return {{"the usual batch", {64}}};
  }
};

}  // namespace duet
