// SPDX-License-Identifier: Apache-2.0
// ResNet-50 v1.5 (the 3x3 convolution of a bottleneck has the stride): 224 px, 1000 classes; softmax cross-entropy, SGD
// with momentum and weight decay. He et al., arXiv:1512.03385; sizes as torchvision's resnet50.
// With head_only all but the last layer is frozen, as in fine-tuning: its weights are states, batch normalisation uses
// the running statistics, and the backward pass ends at the last layer.
// With folded an inference has no batch normalisation: it lies in the filters and biases of the convolutions.
#include <cmath>
#include <memory>
#include <vector>

#include "models/layers.h"
#include "models/model.h"
#include "models/served_weights.h"
#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"
#include "ops/elementwise/add.h"
#include "ops/norm/batchnorm.h"
#include "ops/pool/global_avg_pool.h"
#include "ops/statistic.h"

namespace duet {

struct ResNet50 {
  static constexpr const char* name = "resnet50";
  static constexpr double kMomentum = 0.9, kDecay = 1e-4, kLearningRate = 1e-4;

  int64_t batch = 32, side = 224, classes = 1000, width = 64;  // width: channels after the stem
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  bool head_only = false, mixed = false, recompute = false, folded = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("side", side, "height and width of an image");
    field.option("classes", classes, "classes");
    field.option("width", width, "channels after the first convolution; 4 times as many leave the first stage");
    field.option("layout", layout, kLayoutOfModel);
    field.option("head_only", head_only, "only the last layer is trained");
    field.option("mixed", mixed, kMixed);
    field.option("recompute", recompute, kRecompute);
    field.option(kFolded, folded, "of an inference: batch normalisation lies in the convolutions' filters and biases");
  }
  std::string invalid() const;
  std::string untrained() const {
    return folded ? "folded 1: only an inference has its batch normalisation in the convolutions; a step allows 0" : "";
  }
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
  void adapt(Checkpoint& checkpoint) const {
    if (folded) fold_batchnorms(checkpoint, BatchNormInference{}.eps);
  }

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:16 side:64 classes:10 width:4"},
        {"channels last", "batch:4 side:32 classes:10 width:4 layout:nhwc"},
        {"only the last layer is trained", "batch:4 side:32 classes:10 width:4 head_only:1"},
        {"activations recomputed", "batch:4 side:32 classes:10 width:4 recompute:1"},
    };
    const Cases standard{
        {"as published, batch 16", "batch:16"},
        {"batch 16, mixed precision", "bf16 batch:16 layout:nhwc mixed:1"},
    };
    const Cases more{
        {"batch 16, channels last", "batch:16 layout:nhwc"},
        {"fine-tuning, batch 16: only the last layer is trained", "batch:16 head_only:1"},
        {"batch 16 on two replicas, their gradients in several buckets", "batch:16 replicas:2"},
        {"as published, batch 32", "batch:32"},
        {"as published, batch 32, channels last", "batch:32 layout:nhwc"},
        {"as published, batch 32, mixed precision", "bf16 batch:32 layout:nhwc mixed:1"},
        {"as published, batch 32, mixed precision with loss scaling", "f16 batch:32 layout:nhwc mixed:1"},
        {"as published, batch 256, mixed precision", "bf16 batch:256 layout:nhwc mixed:1"},
        {"as published, batch 256, channels last", "batch:256 layout:nhwc"},
        {"as published, batch 256, mixed precision, activations recomputed",
         "bf16 batch:256 layout:nhwc mixed:1 recompute:1"},
        {"fine-tuning, batch 32", "batch:32 head_only:1"},
        {"fine-tuning, batch 256, bf16", "bf16 batch:256 layout:nhwc head_only:1 mixed:1"},
    };
    // A step takes 0.32 GB and 0.085 GB an image: 256 would leave 24 GiB no room for a library's workspace.
    return by_scale(scale, test, standard, more, sweep("batch", 1, 128, "", 2));
  }
  static Cases served() {
    return {{"batch normalisation as trained", ""},
            {"batch normalisation folded", "folded:1"},
            {"batch normalisation folded, channels last", "folded:1 layout:nhwc"},
            {"batch normalisation folded, channels last, bf16", "dtype:bf16 folded:1 layout:nhwc"}};
  }
};

namespace {

// plain: parameters <name>.weight, <name>.gamma, <name>.beta; states: running statistics. frozen: all of them are
// states. folded, for an evaluation: parameters <name>.weight, <name>.bias, and no batch normalisation.
enum class NormForm : uint8_t { plain, frozen, folded };

// y = act(batchnorm(conv(x, w)) + added).
class ConvNorm {
 public:
  ConvNorm(Tape& tape, const std::string& name, const Conv2d& conv, NormForm form, bool relu, bool residual = false)
      : tape_(&tape), conv_(conv), form_(form) {
    norm_ = {.n = conv.n,
             .c = conv.k,
             .h = conv.ho(),
             .w = conv.wo(),
             .layout = conv.layout,
             .act = relu ? NormAct::relu : NormAct::none,
             .residual = residual,
             .dtype = conv.dtype};
    const double reach = std::sqrt(6.0 / static_cast<double>(conv.k * conv.r * conv.s));  // He et al., arXiv:1502.01852
    const auto weight = [&](const char* what, const Shape& shape, Fill init) {
      return form == NormForm::frozen ? tape.state(name + what, shape, init, conv.dtype)
                                      : tape.parameter(name + what, shape, init, conv.dtype);
    };
    w_ = weight(".weight", conv.tensors()[Conv2d::filter.index].shape, Fill::uniform(-reach, reach));
    if (form == NormForm::folded) {
      bias_ = weight(".bias", {conv.k}, Fill::constant(0));
      return;
    }
    gamma_ = weight(".gamma", {conv.k}, Fill::constant(1));
    beta_ = weight(".beta", {conv.k}, Fill::constant(0));
    running_mean_ = tape.state(name + ".running_mean", {conv.k}, 0, statistic_dtype(conv.dtype));
    running_var_ = tape.state(name + ".running_var", {conv.k}, 1, statistic_dtype(conv.dtype));
  }

  Var forward(Var x, Var added = {}) {
    x_ = x;
    conv_out_ = tape_->add(conv_, {x, w_});
    BatchNorm problem;
    static_cast<Channels&>(problem) = norm_;
    if (tape_->recomputing()) problem.momentum = 0;  // the running statistics have seen this batch
    const Outputs out = norm_.residual
                            ? tape_->add(problem, {conv_out_, gamma_, beta_, running_mean_, running_var_, added})
                            : tape_->add(problem, {conv_out_, gamma_, beta_, running_mean_, running_var_});
    mean_ = out[BatchNorm::mean];
    rstd_ = out[BatchNorm::rstd];
    return y_ = out[BatchNorm::y];
  }
  Var evaluate(Var x, Var added = {}) {
    const Act act = norm_.relu() ? Act::relu : Act::none;
    if (form_ == NormForm::folded && !norm_.residual)
      return tape_->add(Conv2dBias{.conv = conv_, .act = act}, {x, w_, bias_});
    if (form_ == NormForm::folded) {
      const Var z = tape_->add(Conv2dBias{.conv = conv_}, {x, w_, bias_});
      return tape_->add(Add{.n = norm_.elements(), .dtype = norm_.dtype, .act = act}, {z, added}, {{Add::c, z}});
    }
    const Var z = tape_->add(conv_, {x, w_});
    BatchNormInference problem;
    static_cast<Channels&>(problem) = norm_;
    return norm_.residual ? tape_->add(problem, {z, gamma_, beta_, running_mean_, running_var_, added})
                          : tape_->add(problem, {z, gamma_, beta_, running_mean_, running_var_});
  }

  struct Gradients {
    Var dx, dadded;
  };
  Gradients backward(Var dy) {
    const Gradients through = before_norm(dy);
    const Var dx = tape_->add(Conv2dBackwardData{conv_}, {w_, through.dx});
    return {dx, through.dadded};
  }
  void backward_parameters(Var dy) { before_norm(dy); }  // of the first layer

 private:
  Gradients before_norm(Var dy) {
    BatchNormBackward problem;
    static_cast<Channels&>(problem) = norm_;
    const Tape::Bindings outputs{{BatchNormBackward::dgamma, tape_->gradient(gamma_)},
                                 {BatchNormBackward::dbeta, tape_->gradient(beta_)}};
    const Outputs out = norm_.relu() ? tape_->add(problem, {conv_out_, gamma_, mean_, rstd_, dy, y_}, outputs)
                                     : tape_->add(problem, {conv_out_, gamma_, mean_, rstd_, dy}, outputs);
    const Var dz = out[BatchNormBackward::dx];
    tape_->add(Conv2dBackwardFilter{conv_}, {x_, dz}, {{Conv2dBackwardFilter::dw, tape_->gradient(w_)}});
    return {dz, norm_.residual ? out[BatchNormBackward::dadded] : Var{}};
  }

  Tape* tape_;
  Conv2d conv_;
  NormForm form_;
  Channels norm_;
  Var w_, bias_, gamma_, beta_, running_mean_, running_var_, x_, conv_out_, y_, mean_, rstd_;
};

// y = relu(f(x) + shortcut(x)). f: convolutions 1x1 to `width` channels, 3x3, 1x1 to 4 width. The shortcut is x itself,
// or a convolution of x where the shapes differ.
class Bottleneck {
 public:
  Bottleneck(Tape& tape, const std::string& name, const Conv2d& in, NormForm form, int64_t width, int64_t stride,
             bool recompute)
      : tape_(&tape), recompute_(recompute) {
    // in: n, c, h, w, dtype of x
    Conv2d reduce = in;
    reduce.k = width;
    reduce.r = reduce.s = 1;
    Conv2d spatial = in;
    spatial.c = spatial.k = width;
    spatial.r = spatial.s = 3;
    spatial.pad_h = spatial.pad_w = 1;
    spatial.stride_h = spatial.stride_w = stride;
    expand_ = in;
    expand_.c = width;
    expand_.h = spatial.ho();
    expand_.w = spatial.wo();
    expand_.k = 4 * width;
    expand_.r = expand_.s = 1;
    if (in.c != 4 * width || stride != 1) {
      Conv2d change = in;
      change.k = 4 * width;
      change.r = change.s = 1;
      change.stride_h = change.stride_w = stride;
      shortcut_ = std::make_unique<ConvNorm>(tape, name + ".downsample", change, form, false);
    }
    conv1_ = std::make_unique<ConvNorm>(tape, name + ".conv1", reduce, form, true);
    conv2_ = std::make_unique<ConvNorm>(tape, name + ".conv2", spatial, form, true);
    conv3_ = std::make_unique<ConvNorm>(tape, name + ".conv3", expand_, form, true, true);
    in_elements_ = in.n * in.c * in.h * in.w;
  }
  Conv2d out() const {  // n, c, h, w of y
    Conv2d shape{.n = expand_.n, .c = expand_.k, .h = expand_.h, .w = expand_.w, .dtype = expand_.dtype};
    shape.layout = expand_.layout;
    return shape;
  }
  Var forward(Var x) {
    x_ = x;
    const Var added = shortcut_ ? shortcut_->forward(x) : x;
    return conv3_->forward(conv2_->forward(conv1_->forward(x)), added);
  }
  Var evaluate(Var x) {
    const Var added = shortcut_ ? shortcut_->evaluate(x) : x;
    return conv3_->evaluate(conv2_->evaluate(conv1_->evaluate(x)), added);
  }
  Var backward(Var dy) {
    if (recompute_) tape_->recompute([&] { forward(x_); });
    const ConvNorm::Gradients last = conv3_->backward(dy);
    const Var through = conv1_->backward(conv2_->backward(last.dx).dx).dx;
    const Var around = shortcut_ ? shortcut_->backward(last.dadded).dx : last.dadded;
    return tape_->add(Add{.n = in_elements_, .dtype = expand_.dtype}, {through, around}, {{Add::c, through}});
  }

 private:
  Tape* tape_;
  bool recompute_;
  Var x_;
  Conv2d expand_;
  int64_t in_elements_;
  std::unique_ptr<ConvNorm> shortcut_, conv1_, conv2_, conv3_;
};

class Net {
 public:
  Net(Tape& tape, const ResNet50& m) : tape_(&tape), m_(m) {
    stem_shape_ = {.n = m.batch,
                   .c = first_channels(3, m.layout, m.dtype),
                   .h = m.side,
                   .w = m.side,
                   .k = m.width,
                   .r = 7,
                   .s = 7,
                   .layout = m.layout,
                   .dtype = m.dtype};
    stem_shape_.pad_h = stem_shape_.pad_w = 3;
    stem_shape_.stride_h = stem_shape_.stride_w = 2;
    const NormForm form = m.folded ? NormForm::folded : m.head_only ? NormForm::frozen : NormForm::plain;
    stem_ = std::make_unique<ConvNorm>(tape, "conv1", stem_shape_, form, true);
    pool_.n = m.batch;
    pool_.c = m.width;
    pool_.h = stem_shape_.ho();
    pool_.w = stem_shape_.wo();
    pool_.r = pool_.s = 3;
    pool_.pad_h = pool_.pad_w = 1;
    pool_.stride_h = pool_.stride_w = 2;
    pool_.layout = m.layout;
    pool_.dtype = m.dtype;
    Conv2d shape{.n = m.batch, .c = m.width, .h = pool_.ho(), .w = pool_.wo(), .layout = m.layout, .dtype = m.dtype};
    constexpr int kBlocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage)
      for (int block = 0; block < kBlocks[stage]; ++block) {
        blocks_.emplace_back(tape, "layer" + std::to_string(stage + 1) + "." + std::to_string(block), shape, form,
                             m.width << stage, stage > 0 && block == 0 ? 2 : 1, m.recompute);
        shape = blocks_.back().out();
      }
    average_ = {.n = m.batch, .c = shape.c, .h = shape.h, .w = shape.w, .layout = m.layout, .dtype = m.dtype};
    head_ = std::make_unique<LinearLayer>(tape, "fc",
                                          Linear{.n = m.batch, .in = shape.c, .out = m.classes, .dtype = m.dtype});
  }

  Var forward(Var x) {
    if (m_.head_only) return evaluate(x);
    MaxPool2d pool;
    static_cast<Pool2d&>(pool) = pool_;
    const Outputs pooled = tape_->add(pool, {stem_->forward(images_as(*tape_, x, 3, stem_shape_))});
    index_ = pooled[MaxPool2d::index];
    Var h = pooled;
    for (Bottleneck& b : blocks_) h = b.forward(h);
    return head_->forward(tape_->add(average_, {h}));
  }
  Var evaluate(Var x) {
    MaxPool2d pool;
    static_cast<Pool2d&>(pool) = pool_;
    pool.indexed = false;
    Var h = tape_->add(pool, {stem_->evaluate(images_as(*tape_, x, 3, stem_shape_))});
    for (Bottleneck& b : blocks_) h = b.evaluate(h);
    return head_->forward(tape_->add(average_, {h}));
  }
  void backward(Var dlogits) {
    if (m_.head_only) return head_->backward_parameters(dlogits);
    const GlobalAvgPoolBackward spread{
        .n = average_.n, .c = average_.c, .h = average_.h, .w = average_.w, .layout = m_.layout, .dtype = m_.dtype};
    Var dy = tape_->add(spread, {head_->backward(dlogits)});
    for (size_t i = blocks_.size(); i-- > 0;) dy = blocks_[i].backward(dy);
    MaxPool2dBackward pool;
    static_cast<Pool2d&>(pool) = pool_;
    stem_->backward_parameters(tape_->add(pool, {index_, dy}));
  }

 private:
  Tape* tape_;
  ResNet50 m_;
  Conv2d stem_shape_;
  Pool2d pool_;
  Var index_;
  std::unique_ptr<ConvNorm> stem_;
  std::vector<Bottleneck> blocks_;
  GlobalAvgPool average_;
  std::unique_ptr<LinearLayer> head_;
};

Var pixels(Tape& tape, const ResNet50& m) {
  return tape.input("x", m.dtype, {m.batch, 3, m.side, m.side}, Fill::uniform(-2, 2));  // normalised images
}

}  // namespace

std::string ResNet50::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  if (side < 32 || side > 4096) return "side " + std::to_string(side) + ": 32 to 4096 are allowed";
  if (classes < 1 || width < 1) return "classes and width must be at least 1";
  if (recompute && head_only) return "recompute 1: with head_only no block has a backward pass; 0 is allowed";
  return "";
}

void ResNet50::train(Tape& tape) const {
  const Var x = pixels(tape, *this), label = tape.input("label", DType::i32, {batch}, Fill::below(classes));
  Net net(tape, *this);
  CrossEntropyLoss loss(tape, batch, classes, dtype, {.mixed = mixed});
  tape.phase("forward");
  loss.forward(net.forward(x), label);
  tape.phase("backward");
  net.backward(loss.backward());
  add_optimiser(
      tape, dtype,
      SgdOptions{.learning_rate = kLearningRate, .momentum = kMomentum, .weight_decay = kDecay, .mixed = mixed});
}

void ResNet50::evaluate(Tape& tape) const {
  const Var x = pixels(tape, *this);
  Net net(tape, *this);
  tape.phase("forward");
  tape.output("logits", net.evaluate(x));
}

DUET_MODEL(ResNet50);

}  // namespace duet
