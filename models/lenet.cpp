// SPDX-License-Identifier: Apache-2.0
// LeNet on colour images of 32x32, as in PyTorch's first tutorial: two convolutions of 5x5 with relu and max pooling,
// then 400-120-84-10; softmax cross-entropy, SGD with momentum 0.9. LeCun et al., Gradient-based learning applied to
// document recognition, 1998.
#include "models/layers.h"
#include "models/model.h"

namespace duet {

struct LeNet {
  static constexpr const char* name = "lenet";
  static constexpr int64_t kSide = 32, kColours = 3, kClasses = 10;
  static constexpr double kMomentum = 0.9, kLearningRate = 1e-3;

  int64_t batch = 4;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option(
        "mixed", mixed,
        "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"an odd batch", "batch:3"},
    };
    const Cases standard{
        {"one image", "batch:1"},
        {"the tutorial's batch: what does a call cost?", "batch:4"},
        {"between them, for the break-even", "batch:16"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:256"},
        {"the usual batch, mixed precision", "bf16 batch:64 mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 1024, "", 2));
  }
};

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

  add_optimiser(tape, dtype, SgdOptions{.learning_rate = kLearningRate, .momentum = kMomentum, .mixed = mixed});
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
