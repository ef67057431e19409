// SPDX-License-Identifier: Apache-2.0
// A convolutional network for MNIST: 3x3 convolutions of 32 and 64 channels with relu, each followed by max pooling,
// then 1600-128-10; softmax cross-entropy, Adam.
#include "models/cnn.h"
#include "models/model.h"

namespace duet {

struct MnistCnn {
  static constexpr const char* name = "mnist_cnn";
  static constexpr int64_t kSide = 28, kClasses = 10;
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 64;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("layout", layout, kLayoutOfModel);
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const { return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); }
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"an odd batch", "batch:3"},
    };
    const Cases standard{
        {"the usual batch", "batch:64"},
        {"the usual batch, channels last", "batch:64 layout:nhwc"},
        {"the usual batch, mixed precision", "bf16 batch:64 layout:nhwc mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 layout:nhwc mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 256, "", 2));
  }
};

namespace {
CnnShape shape_of(const MnistCnn& m) {
  return {.batch = m.batch,
          .channels = 1,
          .side = MnistCnn::kSide,
          .convolutions = {{32, 3, true}, {64, 3, true}},
          .linear = {128, MnistCnn::kClasses},
          .dtype = m.dtype,
          .layout = m.layout};
}
}  // namespace

void MnistCnn::train(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this)),
            label = tape.input("label", DType::i32, {batch}, Fill::below(kClasses));
  Cnn net(tape, shape_of(*this));
  CrossEntropyLoss loss(tape, batch, kClasses, dtype, {.mixed = mixed});
  tape.phase("forward");
  loss.forward(net.forward(x), label);
  tape.phase("backward");
  net.backward(loss.backward());
  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void MnistCnn::evaluate(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this));
  Cnn net(tape, shape_of(*this));
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(MnistCnn);

}  // namespace duet
