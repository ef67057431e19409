// SPDX-License-Identifier: Apache-2.0
// A convolutional network for CIFAR-10: 3x3 convolutions of 32, 64 and 64 channels with relu, max pooling after the first
// two, then 1024-64-10; softmax cross-entropy, Adam. It is the network of TensorFlow's CNN tutorial.
#pragma once
#include "models/model.h"

namespace duet {

struct CifarCnn {
  static constexpr const char* name = "cifar_cnn";
  static constexpr int64_t kSide = 32, kColours = 3, kClasses = 10;
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

  static std::vector<Case<CifarCnn>> cases(Scale scale) {
    if (scale == Scale::test) return {{"an odd batch", {3}}};
    return {{"the usual batch", {64}}};
  }
};

}  // namespace duet
