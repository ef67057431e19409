// SPDX-License-Identifier: Apache-2.0
// The multi-layer perceptron 784-128-10, the classic first network for MNIST: relu, dropout 0.2, softmax cross-entropy,
// SGD with momentum 0.9 or Adam. With int8 its inference multiplies weights and activations of 8 bits.
//   parts: a step of model-parallel training, split as Megatron-LM splits its MLPs (arXiv:1909.08053). Each part has
//   its share of the hidden units, by columns of the first layer, and the head's rows of these units. The parts' logits
//   are added up by all_reduce, and each part computes the loss and its gradients from its own sum. The backward pass
//   needs no reduction: no gradient of x is formed. It learns what the whole network learns, but for rounding. There is
//   no dropout, because a part's units are not consecutive elements of the mask of all units. The copies of the head's
//   bias begin at 0, as in Megatron-LM.
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
  double dropout = kDropout;
  bool mixed = false, int8 = false;
  int64_t parts = 1;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("optimiser", optimiser, "sgd, with momentum 0.9, or adam");
    field.option("dropout", dropout, "probability that a hidden activation is dropped");
    field.option("mixed", mixed, kMixed);
    field.option("int8", int8, "of an inference: weights and activations of 8 bits; biases and logits in dtype");
    field.option("parts", parts, "1, or the parts of the hidden layer in model-parallel training: 2, 4 or 8");
  }
  int64_t units() const { return kHidden / parts; }  // hidden units of a part
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
        {"split over four parts", "batch:8 dropout:0 parts:4"},
        {"three replicas", "batch:4 replicas:3"},
    };
    const Cases standard{
        {"small: what does a call cost?", "batch:32"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:512"},
        {"the usual batch, Adam", "batch:64 optimiser:adam"},
        {"the usual batch, mixed precision", "bf16 batch:64 mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 mixed:1"},
        {"the usual batch without dropout, to compare the split ones with", "batch:64 dropout:0"},
        {"the usual batch, split over two parts", "batch:64 dropout:0 parts:2"},
        {"the usual batch, split over eight parts", "batch:64 dropout:0 parts:8"},
        {"the usual batch on four replicas", "batch:64 replicas:4"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 16384));
  }
  static Cases served() { return {{"", ""}, {"8-bit weights and activations", "int8:1"}}; }
};

}  // namespace duet
