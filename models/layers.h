// SPDX-License-Identifier: Apache-2.0
// What models share: layers, a loss, optimisers. A layer declares its parameters where it is made; forward() adds its
// ops and remembers what backward() needs. No autodiff: a model calls backward() itself, last layer first.
// Gradients go to the tape's arena, Tape::gradient(weight). Initial values are PyTorch's: uniform within 1 / sqrt(terms
// of a sum), weights and biases alike.
#pragma once
#include <string>

#include "models/tape.h"
#include "ops/conv/conv2d.h"
#include "ops/gemm/linear.h"
#include "ops/pool/max_pool2d.h"

namespace duet {

Fill default_init(int64_t terms);
std::string invalid_model(int64_t batch, DType dtype);  // "" where a model of this batch and dtype can be made

// y = act(x w' + bias). Parameters <name>.weight (out, in), <name>.bias (out).
class LinearLayer {
 public:
  LinearLayer(Tape& tape, const std::string& name, const Linear& shape);
  Var forward(Var x);
  Var backward(Var dy);              // returns dx
  void backward_parameters(Var dy);  // of a first layer, whose x needs no gradient

 private:
  Tape* tape_;
  Linear shape_;
  Var w_, bias_, x_, y_;
};

// y = relu(conv(x, w) + bias), the sum in place of the convolution. Parameters <name>.weight as conv2d's, <name>.bias (k).
class ConvLayer {
 public:
  ConvLayer(Tape& tape, const std::string& name, const Conv2d& shape);
  Var forward(Var x);
  Var backward(Var dy);              // dy is overwritten; returns dx
  void backward_parameters(Var dy);  // of a first layer, whose x needs no gradient

 private:
  Var before_relu(Var dy);  // and the gradients of the parameters
  Tape* tape_;
  Conv2d shape_;
  Var w_, bias_, x_, y_;
};

// The largest of 2x2 pixels, two apart; an odd row or column at the end is left out. of: the convolution before it.
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

// Loss scaling (arXiv:1710.03740), PyTorch's GradScaler: mixed precision in f16, whose range gradients leave at both ends;
// bf16 has that of f32. States loss_scale, 65536 at first, and good_steps: a step whose gradients overflow leaves
// parameters and the optimiser's state as they are and halves the scale, 2000 good ones in a row double it. What the forward
// pass moves moves in a bad step too: running statistics, dropout's offset. All of it is on the device: a captured graph
// holds, and the host is never asked.
inline constexpr const char* kLossScale = "loss_scale";
bool scales_loss(DType dtype, bool mixed);

// Softmax cross-entropy of logits (rows, cols), the phase "loss". Outputs "logits" and "loss" of the tape. mixed: as the
// optimiser's; the loss is scaled where that calls for it.
class CrossEntropyLoss {
 public:
  CrossEntropyLoss(Tape& tape, int64_t rows, int64_t cols, DType dtype, bool mixed = false)
      : tape_(&tape), rows_(rows), cols_(cols), dtype_(dtype), scaled_(scales_loss(dtype, mixed)) {}
  void forward(Var logits, Var label);
  Var backward();  // dlogits

 private:
  Tape* tape_;
  int64_t rows_, cols_;
  DType dtype_;
  bool scaled_;
  Var logits_, label_, lse_;
};

// Binary cross-entropy of one logit a sample (rows, 1), the phase "loss". Outputs "logits" and "loss" of the tape.
class BinaryLoss {
 public:
  BinaryLoss(Tape& tape, int64_t rows, DType dtype) : tape_(&tape), rows_(rows), dtype_(dtype) {}
  void forward(Var logits, Var target);
  Var backward();  // dlogits

 private:
  Tape* tape_;
  int64_t rows_;
  DType dtype_;
  Var logits_, target_;
};

// The phase "optimiser", over the whole arena. States: lr; velocity, or step, m and v; with mixed also master, the
// parameters in f32, of which the arena holds the rounded values. Where the loss is scaled, gradients are brought back to
// f32 first, and adapting the scale ends the phase.
struct SgdOptions {
  double learning_rate, momentum = 0.9, weight_decay = 0;
  bool mixed = false;
};
struct AdamOptions {
  double learning_rate, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
  bool mixed = false;
  double max_norm = 0;  // to which gradients are clipped; 0: they are not
};
void add_optimiser(Tape& tape, DType dtype, const SgdOptions& rule);
void add_optimiser(Tape& tape, DType dtype, const AdamOptions& rule);
std::string invalid_mixed(bool mixed, DType dtype);  // "" where this dtype can have master parameters

}  // namespace duet
