// SPDX-License-Identifier: Apache-2.0
// The multi-layer perceptron 784-128-10, the classic first network for MNIST: relu, dropout 0.2, softmax cross-entropy,
// SGD with momentum 0.9 or Adam. With int8 its inference multiplies weights and activations of 8 bits.
#pragma once
#include "models/layers.h"
#include "models/model.h"

namespace duet {

struct Mlp {
  static constexpr const char* name = "mlp";
  static constexpr int64_t kIn = 784, kHidden = 128, kOut = 10;
  static constexpr double kDropout = 0.2, kMomentum = 0.9, kLearningRate = 0.05, kAdamLearningRate = 1e-3;

  int64_t batch = 32;
  DType dtype = DType::f32;
  OptimiserKind optimiser = OptimiserKind::sgd;
  bool mixed = false, int8 = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("optimiser", optimiser, "sgd, with momentum 0.9, or adam");
    field.option("mixed", mixed, kMixed);
    field.option("int8", int8, "of an inference: weights and activations of 8 bits; biases and logits in dtype");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
  void adapt(Checkpoint& checkpoint) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"beside a register tile", "batch:7"},
        {"the smallest that is timed", "batch:32"},
        {"Adam", "batch:7 optimiser:adam"},
        {"mixed precision with loss scaling", "f16 batch:7 mixed:1"},
    };
    const Cases standard{
        {"small: what does a call cost?", "batch:32"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:512"},
        {"the usual batch, Adam", "batch:64 optimiser:adam"},
        {"the usual batch, mixed precision", "bf16 batch:64 mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 16384));
  }
  static Cases served() { return {{"", ""}, {"8-bit weights and activations", "int8:1"}}; }
};

}  // namespace duet
