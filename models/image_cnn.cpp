// SPDX-License-Identifier: Apache-2.0
// A convolutional network for photographs, after the tutorials of Keras: 3x3 convolutions of 32, 64 and 128 channels
// with relu and max pooling.
//   10 classes at 224 pixels: 86528-256, dropout 0.5, 10; softmax cross-entropy.
//   Two classes (classes:1) at 128 or 256 pixels: no pooling after the last convolution, 100352 or 460800-512-1; binary
//   cross-entropy.
// Adam. With `augment` the step begins by shearing, zooming and mirroring the images. This is a phase of the tape, not
// of a loader, so that CPU and GPU do the same work with the same numbers and its cost shows as a phase of its own.
#include "models/cnn.h"
#include "models/model.h"
#include "ops/elementwise/affine.h"

namespace duet {

struct ImageCnn {
  static constexpr const char* name = "image_cnn";
  static constexpr double kLearningRate = 1e-3, kDropout = 0.5;
  static constexpr double kReach = 0.2;  // of shear and zoom

  int64_t batch = 32, side = 224, classes = 10, width = 32;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  bool augment = false, mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("side", side, "height and width of an image");
    field.option("classes", classes, "classes; 1: two classes told apart by one logit");
    field.option("width", width, "channels after the first convolution");
    field.option("layout", layout, kLayoutOfModel);
    field.option("augment", augment, "images are sheared and zoomed by up to 0.2, and half of them mirrored");
    field.option("mixed", mixed, kMixed);
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
  bool binary() const { return classes == 1; }

  static Cases cases(Scale scale) {
    const Cases test{
        {"ten classes, narrowed", "batch:3 side:26 width:4"},
        {"two classes, narrowed, channels last", "batch:3 side:22 classes:1 width:4 layout:nhwc"},
        {"augmented", "batch:3 side:22 width:4 augment:1"},
    };
    const Cases standard{
        {"224 pixels, one image", "batch:1"},
        {"224 pixels, the usual batch, augmented", "batch:32 augment:1"},
    };
    const Cases more{
        {"224 pixels, mixed precision", "bf16 batch:32 augment:1 layout:nhwc mixed:1"},
        {"224 pixels, the usual batch, augmented, channels last", "batch:32 augment:1 layout:nhwc"},
        {"224 pixels, mixed precision with loss scaling", "f16 batch:32 augment:1 layout:nhwc mixed:1"},
        {"128 pixels, two classes", "batch:64 side:128 classes:1"},
        {"256 pixels, two classes", "batch:64 side:256 classes:1"},
        {"256 pixels, two classes, mixed precision", "bf16 batch:64 side:256 classes:1 layout:nhwc mixed:1"},
    };
    return by_scale(scale, test, standard, more, sweep("batch", 1, 64, "", 2));
  }
};

namespace {

CnnShape shape_of(const ImageCnn& m) {
  const int64_t hidden = (m.binary() ? 16 : 8) * m.width;
  return {.batch = m.batch,
          .channels = 3,
          .side = m.side,
          .convolutions = {{m.width, 3, true}, {2 * m.width, 3, true}, {4 * m.width, 3, !m.binary()}},
          .linear = {hidden, m.classes},
          .dropout = m.binary() ? 0 : ImageCnn::kDropout,
          .dtype = m.dtype,
          .layout = m.layout};
}

// Rows of (2, 3): zoom by 0.8 to 1.2 in either direction, mirrored in half of the images, and shear by up to 0.2.
double drawn_theta(int64_t element, uint32_t bits) {
  const double uniform = ImageCnn::kReach * ((bits >> 1) * 0x1p-30 - 1);
  switch (element % 6) {
    case 0:
      return (bits & 1 ? -1 : 1) * (1 + uniform);
    case 1:
      return uniform;
    case 4:
      return 1 + uniform;
    default:
      return 0;
  }
}

Var augmented(Tape& tape, const ImageCnn& m, Var x, Var theta) {
  tape.phase("augment");
  return tape.add(Affine{.n = m.batch, .c = 3, .h = m.side, .w = m.side, .dtype = m.dtype}, {x, theta});
}

}  // namespace

std::string ImageCnn::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  if (classes < 1 || classes > 1 << 20) return "classes " + std::to_string(classes) + ": 1 to 1048576 are allowed";
  if (width < 1 || width > 1 << 12) return "width " + std::to_string(width) + ": 1 to 4096 are allowed";
  return invalid_cnn(shape_of(*this));
}

void ImageCnn::train(Tape& tape) const {
  Var x = image_input(tape, shape_of(*this));
  const Var label = binary() ? tape.input("label", dtype, {batch, 1}, Fill::below(2))
                             : tape.input("label", DType::i32, {batch}, Fill::below(classes));
  const Var theta = augment ? tape.drawn_input("theta", statistic_dtype(dtype), {batch, 2, 3}, drawn_theta) : Var{};
  Cnn net(tape, shape_of(*this));
  if (augment) x = augmented(tape, *this, x, theta);
  const auto step = [&](auto loss) {
    tape.phase("forward");
    loss.forward(net.forward(x), label);
    tape.phase("backward");
    net.backward(loss.backward());
  };
  if (binary())
    step(BinaryLoss(tape, batch, dtype, mixed));
  else
    step(CrossEntropyLoss(tape, batch, classes, dtype, {.mixed = mixed}));
  add_optimiser(tape, dtype, AdamOptions{.learning_rate = kLearningRate, .mixed = mixed});
}

void ImageCnn::evaluate(Tape& tape) const {
  const Var x = image_input(tape, shape_of(*this));
  Cnn net(tape, shape_of(*this));
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(ImageCnn);

}  // namespace duet
