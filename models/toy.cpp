// SPDX-License-Identifier: Apache-2.0
#include "models/toy.h"

#include "models/layers.h"

namespace duet {
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

std::string Toy::invalid() const { return invalid_model(batch, dtype); }

void Toy::train(Tape& tape) const {
  const Var x = features(tape, *this), target = tape.input("label", dtype, {batch, 1}, Fill::below(2));
  Layers net{batch, dtype, tape};
  BinaryLoss loss(tape, batch, dtype);

  tape.phase("forward");
  loss.forward(net.fc2.forward(net.fc1.forward(x)), target);

  tape.phase("backward");
  net.fc1.backward_parameters(net.fc2.backward(loss.backward()));

  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kRate});
}

void Toy::evaluate(Tape& tape) const {
  const Var x = features(tape, *this);
  Layers net{batch, dtype, tape};
  tape.phase("forward");
  tape.output("logits", net.fc2.forward(net.fc1.forward(x)));
}

DUET_MODEL(Toy);

}  // namespace duet
