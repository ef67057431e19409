// SPDX-License-Identifier: Apache-2.0
// The multi-layer perceptron 784-128-10, the classic first network for MNIST: relu, dropout 0.2, softmax cross-entropy,
// SGD with momentum 0.9.
#pragma once
#include "models/model.h"

namespace duet {

struct Mlp {
  static constexpr const char* name = "mlp";
  static constexpr int64_t kIn = 784, kHidden = 128, kOut = 10;
  static constexpr double kDropout = 0.2, kMomentum = 0.9, kLearningRate = 0.05;

  int64_t batch = 32;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<Mlp>> cases(Scale scale) {
    if (scale == Scale::test) return {{"beside a register tile", {7}}, {"the smallest that is timed", {32}}};
    return {
        {"small: what does a call cost?", {32}}, {"the usual batch", {64}}, {"large enough to fill a device?", {512}}};
  }
};

}  // namespace duet
