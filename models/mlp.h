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

  static Cases cases(Scale scale) {
    const Cases test{
        {"beside a register tile", "batch:7"},
        {"the smallest that is timed", "batch:32"},
    };
    const Cases standard{
        {"small: what does a call cost?", "batch:32"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:512"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 16384));
  }
};

}  // namespace duet
