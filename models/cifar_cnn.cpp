// SPDX-License-Identifier: Apache-2.0
// A convolutional network for CIFAR-10: 3x3 convolutions of 32, 64 and 64 channels with relu, max pooling after the
// first two, then 1024-64-10; softmax cross-entropy, Adam. It is the network of TensorFlow's CNN tutorial. With another
// `width` than 32 the other numbers change alike.
// With the attribute `compress` the same network is trained to become smaller: distilled from a teacher of twice the
// width, with weights rounded to 8 bits, or with two of each four weights pruned.
#include "models/cnn.h"
#include "models/model.h"

namespace duet {

enum class Compress : uint8_t { none, distilled, quantised, pruned };
inline std::vector<std::string> names_of(Compress) { return {"none", "distilled", "quantised", "pruned"}; }

struct CifarCnn {
  static constexpr const char* name = "cifar_cnn";
  static constexpr int64_t kSide = 32, kColours = 3, kClasses = 10;
  static constexpr double kLearningRate = 1e-3;

  int64_t batch = 64, width = 32;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  Compress compress = Compress::none;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("width", width, "channels after the first convolution");
    field.option("layout", layout, kLayoutOfModel);
    field.option("compress", compress,
                 "distilled: from a frozen teacher of twice the width; quantised: weights rounded to 8 bits, with "
                 "straight-through gradients; pruned: two of each four weights are kept");
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const;
  std::optional<CifarCnn> teacher() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"an odd batch", "batch:3"},
        {"distilled", "batch:1 compress:distilled"},
        {"quantised, channels last", "batch:1 layout:nhwc compress:quantised"},
        {"pruned", "batch:1 compress:pruned"},
    };
    const Cases standard{
        {"the usual batch", "batch:64"},
        {"the usual batch, channels last", "batch:64 layout:nhwc"},
        {"the usual batch, mixed precision", "bf16 batch:64 layout:nhwc mixed:1"},
        {"distilled from a teacher of twice the width", "batch:64 compress:distilled"},
        {"the usual batch, mixed precision with loss scaling", "f16 batch:64 layout:nhwc mixed:1"},
        {"quantised to 8 bits", "batch:64 compress:quantised"},
        {"pruned 2:4", "batch:64 compress:pruned"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 256, "", 2));
  }
};

namespace {
CnnShape shape_of(const CifarCnn& m) {
  const WeightForm form = m.compress == Compress::quantised ? WeightForm::quantised
                          : m.compress == Compress::pruned  ? WeightForm::pruned
                                                            : WeightForm::plain;
  return {.batch = m.batch,
          .channels = CifarCnn::kColours,
          .side = CifarCnn::kSide,
          .convolutions = {{m.width, 3, true}, {2 * m.width, 3, true}, {2 * m.width, 3, false}},
          .linear = {2 * m.width, CifarCnn::kClasses},
          .dtype = m.dtype,
          .layout = m.layout,
          .form = form};
}
}  // namespace

std::string CifarCnn::invalid() const {
  const int64_t widest = compress == Compress::distilled ? 1 << 11 : 1 << 12;  // the teacher's is twice the student's
  if (width < 1 || width > widest) return outside_range("width", width, widest);
  return invalid_model(batch, dtype) + invalid_mixed(mixed, dtype);
}

std::optional<CifarCnn> CifarCnn::teacher() const {
  if (compress != Compress::distilled) return std::nullopt;
  return CifarCnn{.batch = batch, .width = 2 * width, .dtype = dtype, .layout = layout};
}

void CifarCnn::train(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this)),
            label = tape.input("label", DType::i32, {batch}, Fill::below(kClasses));
  Cnn net(tape, shape_of(*this));
  if (const std::optional<CifarCnn> larger = teacher()) {
    CnnShape frozen = shape_of(*larger);
    frozen.form = WeightForm::frozen;
    Cnn teacher(tape, frozen, kTeacher);
    DistillLoss loss(tape, batch, kClasses, dtype, mixed);
    tape.phase("teacher");
    const Var wanted = teacher.evaluate(x);
    tape.phase("forward");
    loss.forward(net.forward(x), wanted, label);
    tape.phase("backward");
    net.backward(loss.backward());
  } else {
    CrossEntropyLoss loss(tape, batch, kClasses, dtype, {.mixed = mixed});
    tape.phase("forward");
    loss.forward(net.forward(x), label);
    tape.phase("backward");
    net.backward(loss.backward());
  }
  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void CifarCnn::evaluate(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this));
  Cnn net(tape, shape_of(*this));
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(CifarCnn);

}  // namespace duet
