// SPDX-License-Identifier: Apache-2.0
// LeNet on colour images of 32x32, as in PyTorch's first tutorial: two convolutions of 5x5 with relu and max pooling,
// then 400-120-84-10; softmax cross-entropy, SGD with momentum 0.9. LeCun et al., Gradient-based learning applied to
// document recognition, 1998.
#include "models/cnn.h"
#include "models/model.h"

namespace duet {

struct LeNet {
  static constexpr const char* name = "lenet";
  static constexpr int64_t kSide = 32, kColours = 3, kClasses = 10;
  static constexpr double kMomentum = 0.9, kLearningRate = 1e-3;

  int64_t batch = 4;
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
        {"channels last, the first convolution padded", "bf16 batch:2 layout:nhwc mixed:1"},
    };
    const Cases standard{
        {"one image", "batch:1"},
        {"the tutorial's batch: what does a call cost?", "batch:4"},
        {"between them, for the break-even", "batch:16"},
        {"the usual batch", "batch:64"},
        {"large enough to fill a device?", "batch:256"},
        {"the usual batch, channels last", "batch:64 layout:nhwc"},
        {"the usual batch, mixed precision", "bf16 batch:64 layout:nhwc mixed:1"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 layout:nhwc mixed:1"},
        {"the usual batch on two replicas", "batch:64 replicas:2"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 1024, "", 2));
  }
};

namespace {
CnnShape shape_of(const LeNet& m) {
  return {.batch = m.batch,
          .channels = LeNet::kColours,
          .side = LeNet::kSide,
          .convolutions = {{6, 5, true}, {16, 5, true}},
          .linear = {120, 84, LeNet::kClasses},
          .dtype = m.dtype,
          .layout = m.layout};
}
}  // namespace

void LeNet::train(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this)),
            label = tape.input("label", DType::i32, {batch}, Fill::below(kClasses));
  Cnn net(tape, shape_of(*this));
  CrossEntropyLoss loss(tape, batch, kClasses, dtype, {.mixed = mixed});
  tape.phase("forward");
  loss.forward(net.forward(x), label);
  tape.phase("backward");
  net.backward(loss.backward());
  add_optimiser(tape, dtype, SgdOptions{.learning_rate = kLearningRate, .momentum = kMomentum, .mixed = mixed});
}

void LeNet::evaluate(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this));
  Cnn net(tape, shape_of(*this));
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(LeNet);

}  // namespace duet
