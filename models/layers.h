// SPDX-License-Identifier: Apache-2.0
// What models share: layers, losses, optimisers. A layer declares its parameters in its constructor; forward() adds its
// ops to the tape and keeps what backward() needs. There is no autodiff: a model calls backward() itself, last layer
// first. Gradients go to the tape's arena, Tape::gradient(weight). Initial values are PyTorch's: uniform within
// 1 / sqrt(terms of a sum), weights and biases alike. A short model that uses this file is models/lenet.cpp.
#pragma once
#include <string>
#include <vector>

#include "models/tape.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/dropout.h"
#include "ops/gemm/linear.h"
#include "ops/pool/max_pool2d.h"

namespace duet {

Fill default_init(int64_t terms);
std::string outside_range(const char* what, int64_t value, int64_t max);  // "tokens 0: 1 to 1024 are allowed"
std::string invalid_model(int64_t batch, DType dtype);  // why no model has this batch and dtype; "" where it may

// How the weight of a layer enters its products.
//   plain: as it is.
//   quantised: rounded to 8 bits with a scale for each row, as training for int8 does (arXiv:1712.05877). The scale is
//     fixed: the initial range of the weight over 127. Gradients pass straight through the rounding.
//   pruned: of each four neighbours the two with the largest absolute values, the others are 0 (arXiv:2104.08378).
//     The kept ones are chosen anew in each step, and only they have a gradient.
//   frozen: a state instead of a parameter. It has a value and a name, but neither gradient nor update.
enum class WeightForm : uint8_t { plain, quantised, pruned, frozen };

class Weight {
 public:
  // shape: rows first. init: uniform within +-reach.
  Weight(Tape& tape, const std::string& name, const Shape& shape, double reach, DType dtype, WeightForm form);
  Var forward();           // the weight as the products take it; once a step, before current()
  Var current() const;     // the same again, for the backward pass
  Var gradient();          // where the product for the gradient writes
  void finish_gradient();  // after that product
  bool trained() const { return form_ != WeightForm::frozen; }

 private:
  Tape* tape_;
  Shape shape_;
  DType dtype_;
  WeightForm form_;
  Var w_, scale_, zero_, used_, mask_, d_used_;
};

// y = act(x w' + bias). Parameters <name>.weight (out, in), <name>.bias (out).
class LinearLayer {
 public:
  LinearLayer(Tape& tape, const std::string& name, const Linear& shape, WeightForm form = WeightForm::plain);
  Var forward(Var x);
  Var backward(Var dy);              // returns dx
  void backward_parameters(Var dy);  // of a first layer, whose x needs no gradient
  // Where x is gelu(h) and h = before.forward(...), neither with an activation of its own: backward(), gelu's gradient
  // and before.backward() with the former two and a bias gradient as one op. Returns the dx of `before`.
  Var backward_through_gelu(Var dy, Var h, LinearLayer& before);

 private:
  void backward_weight(Var dy);
  Tape* tape_;
  Linear shape_;
  Weight w_;
  Var bias_, x_, y_;
};

// Images of a data set are (n, c, h, w). images_as() brings them to the layout of `first`, the first convolution, on
// the device. In nhwc and 16 bits that convolution has first_channels(c) channels: c up to a multiple of 8, because
// tensor cores read 16 bytes at once. The further channels are zeros, so that their weights have no effect and no
// gradient.
int64_t first_channels(int64_t channels, Layout layout, DType dtype);
Var images_as(Tape& tape, Var x, int64_t channels, const Conv2d& first);

// y = relu(conv(x, w) + bias), as one op. Parameters <name>.weight as conv2d's, <name>.bias (k).
class ConvLayer {
 public:
  ConvLayer(Tape& tape, const std::string& name, const Conv2d& shape, WeightForm form = WeightForm::plain);
  Var forward(Var x);
  Var evaluate(Var x);               // keeps nothing for a backward pass
  Var backward(Var dy);              // dy is overwritten; returns dx
  void backward_parameters(Var dy);  // of a first layer, whose x needs no gradient

 private:
  Var before_relu(Var dy);  // the gradient before relu; adds the gradients of the parameters
  Tape* tape_;
  Conv2d shape_;
  Weight w_;
  Var bias_, x_, y_;
};

// The largest of 2x2 pixels, with stride 2; an odd row or column at the end is left out. of: the convolution before it.
class MaxPoolLayer {
 public:
  MaxPoolLayer(Tape& tape, const Conv2d& of);
  Var forward(Var x);
  Var evaluate(Var x);  // keeps nothing for a backward pass
  Var backward(Var dy);

 private:
  Tape* tape_;
  MaxPool2d shape_;
  Var index_;
};

// y = x mask / (1 - p). With p = 0, and in an evaluation, y is x itself.
class DropoutLayer {
 public:
  DropoutLayer(Tape& tape, const std::string& name, int64_t n, double p, DType dtype);
  Var forward(Var x);
  Var backward(Var dy);

 private:
  Tape* tape_;
  Dropout shape_;
  Var offset_, mask_;
};

// The attribute `mixed` of every model.
inline constexpr const char* kMixed =
    "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled";

// The attribute `layout` of models of images.
inline constexpr const char* kLayoutOfModel = "order of the axes of activations and filters";

// The attribute `recompute` of models that consist of blocks (arXiv:1604.06174): of each block a step keeps the input
// alone. Results are the same bits where one implementation serves a norm with its residual sum and the norm alone, as
// which a block begins again, such as cpu.tuned; elsewhere they differ by roundings. The memory between ops falls, and
// the step computes most of a forward pass more.
inline constexpr const char* kRecompute =
    "of a step: each block's activations are computed again in the backward pass, from the block's input";

// Loss scaling (arXiv:1710.03740), as PyTorch's GradScaler, for mixed precision in f16: gradients leave the range of
// f16 at both ends, while bf16 has the range of f32. The states are loss_scale, 65536 at first, and good_steps. A step
// whose gradients overflow leaves parameters and the optimiser's state as they are and halves the scale; 2000 good
// steps in a row double it. What the forward pass changes, such as running statistics and dropout's offset, changes in
// a bad step too. All of it happens on the device, so that the host never waits and a captured graph stays valid.
inline constexpr const char* kLossScale = "loss_scale";
bool scales_loss(DType dtype, bool mixed);  // true for mixed precision in f16

// Softmax cross-entropy of logits (rows, cols), the phase "loss", whose one op computes the gradient as well
// (ops/loss/cross_entropy_fused.h). Outputs "logits" and "loss" of the tape.
class CrossEntropyLoss {
 public:
  struct Options {
    bool mixed = false;     // as in the optimiser's options; see scales_loss
    double smooth = 0;      // as in ops/loss/cross_entropy.h
    bool in_place = false;  // the gradient takes the logits' place, which are no output then: for language models,
                            // whose largest tensor they are
  };
  CrossEntropyLoss(Tape& tape, int64_t rows, int64_t cols, DType dtype, const Options& options)
      : tape_(&tape), rows_(rows), cols_(cols), dtype_(dtype), options_(options) {}
  void forward(Var logits, Var label);
  Var backward() { return dlogits_; }

 private:
  Tape* tape_;
  int64_t rows_, cols_;
  DType dtype_;
  Options options_;
  Var dlogits_;
};

// The loss of a student that learns from a teacher's logits as well (ops/loss/distill.h), the phase "loss". Outputs
// "logits", the student's, and "loss" of the tape.
class DistillLoss {
 public:
  DistillLoss(Tape& tape, int64_t rows, int64_t cols, DType dtype, bool mixed = false)
      : tape_(&tape), rows_(rows), cols_(cols), dtype_(dtype), scaled_(scales_loss(dtype, mixed)) {}
  void forward(Var logits, Var teacher, Var label);
  Var backward();  // dlogits

 private:
  Tape* tape_;
  int64_t rows_, cols_;
  DType dtype_;
  bool scaled_;
  Var logits_, teacher_, label_;
};

// Binary cross-entropy of one logit a sample (rows, 1), the phase "loss". Outputs "logits" and "loss" of the tape.
class BinaryLoss {
 public:
  BinaryLoss(Tape& tape, int64_t rows, DType dtype, bool mixed = false)
      : tape_(&tape), rows_(rows), dtype_(dtype), scaled_(scales_loss(dtype, mixed)) {}
  void forward(Var logits, Var target);
  Var backward();  // dlogits

 private:
  Tape* tape_;
  int64_t rows_;
  DType dtype_;
  bool scaled_;
  Var logits_, target_;
};

// add_optimiser() adds the phase kOptimiser, over the whole arena. States: lr; velocity, or step, m and v; with mixed
// also master, the parameters in f32, whose rounded values the arena holds. Where the loss is scaled, the phase begins
// by bringing gradients back to f32, and ends by adapting the scale.
enum class OptimiserKind : uint8_t { sgd, adam };
inline std::vector<std::string> names_of(OptimiserKind) { return {"sgd", "adam"}; }
struct SgdOptions {
  double learning_rate, momentum = 0.9, weight_decay = 0;
  bool mixed = false;
};
struct AdamOptions {
  double learning_rate, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
  bool mixed = false;
  double max_norm = 0;  // gradients are clipped to this norm; 0: they are not
};
void add_optimiser(Tape& tape, DType dtype, const SgdOptions& rule);
void add_optimiser(Tape& tape, DType dtype, const AdamOptions& rule);
std::string invalid_mixed(bool mixed, DType dtype);  // why this dtype has no master parameters; "" where it may

}  // namespace duet
