// SPDX-License-Identifier: Apache-2.0
// A convolutional network for MNIST: 3x3 convolutions of 32 and 64 channels with relu, each followed by max pooling,
// then 1600-128-10; softmax cross-entropy, Adam.
#include "models/layers.h"
#include "models/model.h"

namespace duet {

struct MnistCnn {
  static constexpr const char* name = "mnist_cnn";
  static constexpr int64_t kSide = 28, kClasses = 10;
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 64;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    return by_scale(scale, {{"an odd batch", "batch:3"}}, {{"the usual batch", "batch:64"}}, {},
                    sweep("batch", 1, 256, "", 2));
  }
};

namespace {

struct Layers {
  const int64_t n;
  const DType dtype;
  Tape& tape;
  Conv2d first{.n = n, .c = 1, .h = MnistCnn::kSide, .w = MnistCnn::kSide, .k = 32, .r = 3, .s = 3, .dtype = dtype};
  Conv2d second{.n = n, .c = 32, .h = 13, .w = 13, .k = 64, .r = 3, .s = 3, .dtype = dtype};  // to 11x11, pooled to 5x5
  ConvLayer conv1{tape, "conv1", first}, conv2{tape, "conv2", second};
  MaxPoolLayer pool1{tape, first}, pool2{tape, second};
  LinearLayer fc1{tape, "fc1", {.n = n, .in = 64 * 5 * 5, .out = 128, .act = Act::relu, .dtype = dtype}};
  LinearLayer fc2{tape, "fc2", {.n = n, .in = 128, .out = MnistCnn::kClasses, .dtype = dtype}};
};

Var pixels(Tape& tape, const MnistCnn& m) {
  return tape.input("x", m.dtype, {m.batch, 1, MnistCnn::kSide, MnistCnn::kSide}, Fill::uniform(0, 1));
}

}  // namespace

std::string MnistCnn::invalid() const { return invalid_model(batch, dtype); }

void MnistCnn::train(Tape& tape) const {
  const Var x = pixels(tape, *this), label = tape.input("label", DType::i32, {batch}, Fill::below(kClasses));
  Layers net{batch, dtype, tape};
  CrossEntropyLoss loss(tape, batch, kClasses, dtype);

  tape.phase("forward");
  const Var h1 = net.pool1.forward(net.conv1.forward(x)), h2 = net.pool2.forward(net.conv2.forward(h1));
  loss.forward(net.fc2.forward(net.fc1.forward(h2)), label);

  tape.phase("backward");
  const Var dh2 = net.fc1.backward(net.fc2.backward(loss.backward()));
  const Var dh1 = net.conv2.backward(net.pool2.backward(dh2));
  net.conv1.backward_parameters(net.pool1.backward(dh1));

  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate});
}

void MnistCnn::evaluate(Tape& tape) const {
  const Var x = pixels(tape, *this);
  Layers net{batch, dtype, tape};
  tape.phase("forward");
  const Var h1 = net.pool1.evaluate(net.conv1.forward(x)), h2 = net.pool2.evaluate(net.conv2.forward(h1));
  tape.output("logits", net.fc2.forward(net.fc1.forward(h2)));
}

DUET_MODEL(MnistCnn);

}  // namespace duet
