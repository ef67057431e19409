// SPDX-License-Identifier: Apache-2.0
#include "models/lenet.h"

#include "models/layers.h"

namespace duet {
namespace {

struct Layers {
  const int64_t n;
  const DType dtype;
  Tape& tape;
  Conv2d first{
      .n = n, .c = LeNet::kColours, .h = LeNet::kSide, .w = LeNet::kSide, .k = 6, .r = 5, .s = 5, .dtype = dtype};
  Conv2d second{.n = n, .c = 6, .h = 14, .w = 14, .k = 16, .r = 5, .s = 5, .dtype = dtype};  // to 10x10, pooled to 5x5
  ConvLayer conv1{tape, "conv1", first}, conv2{tape, "conv2", second};
  MaxPoolLayer pool1{tape, first}, pool2{tape, second};
  LinearLayer fc1{tape, "fc1", {.n = n, .in = 16 * 5 * 5, .out = 120, .act = Act::relu, .dtype = dtype}};
  LinearLayer fc2{tape, "fc2", {.n = n, .in = 120, .out = 84, .act = Act::relu, .dtype = dtype}};
  LinearLayer fc3{tape, "fc3", {.n = n, .in = 84, .out = LeNet::kClasses, .dtype = dtype}};
};

Var pixels(Tape& tape, const LeNet& m) {
  return tape.input("x", m.dtype, {m.batch, LeNet::kColours, LeNet::kSide, LeNet::kSide}, Fill::uniform(0, 1));
}

}  // namespace

std::string LeNet::invalid() const { return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); }

void LeNet::train(Tape& tape) const {
  const Var x = pixels(tape, *this), label = tape.input("label", DType::i32, {batch}, Fill::below(kClasses));
  Layers net{batch, dtype, tape};
  CrossEntropyLoss loss(tape, batch, kClasses, dtype, mixed);

  tape.phase("forward");
  const Var h1 = net.pool1.forward(net.conv1.forward(x)), h2 = net.pool2.forward(net.conv2.forward(h1));
  loss.forward(net.fc3.forward(net.fc2.forward(net.fc1.forward(h2))), label);

  tape.phase("backward");
  const Var dh2 = net.fc1.backward(net.fc2.backward(net.fc3.backward(loss.backward())));
  const Var dh1 = net.conv2.backward(net.pool2.backward(dh2));
  net.conv1.backward_parameters(net.pool1.backward(dh1));

  add_optimiser(tape, dtype, SgdOptions{.learning_rate = kRate, .momentum = kMomentum, .mixed = mixed});
}

void LeNet::evaluate(Tape& tape) const {
  const Var x = pixels(tape, *this);
  Layers net{batch, dtype, tape};
  tape.phase("forward");
  const Var h1 = net.pool1.evaluate(net.conv1.forward(x)), h2 = net.pool2.evaluate(net.conv2.forward(h1));
  tape.output("logits", net.fc3.forward(net.fc2.forward(net.fc1.forward(h2))));
}

DUET_MODEL(LeNet);

}  // namespace duet
