// SPDX-License-Identifier: Apache-2.0
// The smallest model that learns something: 10-10-1, relu, binary cross-entropy, Adam. Its step is all overhead.
#include "models/layers.h"
#include "models/model.h"

namespace duet {

struct Toy {
  static constexpr const char* name = "toy";
  static constexpr int64_t kIn = 10, kHidden = 10;
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 32;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    return by_scale(scale, {{"an odd batch", "batch:7"}},
                    {{"all overhead: what do calls cost?", "batch:32"},
                     {"all overhead, mixed precision", "bf16 batch:32 mixed:1"},
                     {"all overhead, mixed precision with loss scaling", "f16 batch:32 mixed:1"}},
                    {}, sweep("batch", 1, 16384));
  }
};

namespace {

struct Layers {
  const int64_t n;
  const DType dtype;
  Tape& tape;
  LinearLayer fc1{tape, "fc1", {.n = n, .in = Toy::kIn, .out = Toy::kHidden, .act = Act::relu, .dtype = dtype}};
  LinearLayer fc2{tape, "fc2", {.n = n, .in = Toy::kHidden, .out = 1, .dtype = dtype}};
};

Var features(Tape& tape, const Toy& m) { return tape.input("x", m.dtype, {m.batch, Toy::kIn}, Fill::uniform(-1, 1)); }

}  // namespace

std::string Toy::invalid() const { return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); }

void Toy::train(Tape& tape) const {
  const Var x = features(tape, *this), target = tape.input("label", dtype, {batch, 1}, Fill::below(2));
  Layers net{batch, dtype, tape};
  BinaryLoss loss(tape, batch, dtype, mixed);

  tape.phase("forward");
  loss.forward(net.fc2.forward(net.fc1.forward(x)), target);

  tape.phase("backward");
  net.fc1.backward_parameters(net.fc2.backward(loss.backward()));

  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void Toy::evaluate(Tape& tape) const {
  const Var x = features(tape, *this);
  Layers net{batch, dtype, tape};
  tape.phase("forward");
  tape.output("logits", net.fc2.forward(net.fc1.forward(x)));
}

DUET_MODEL(Toy);

}  // namespace duet
