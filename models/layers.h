// SPDX-License-Identifier: Apache-2.0
// What models share: layers, losses, optimisers. A layer declares its parameters in its constructor; forward() adds its
// ops to the tape and keeps what backward() needs. There is no autodiff: a model calls backward() itself, last layer
// first. Gradients go to the tape's arena, Tape::gradient(weight). Initial values are PyTorch's: uniform within
// 1 / sqrt(terms of a sum), weights and biases alike. A short model that uses this file is models/lenet.cpp.
#pragma once
#include <string>

#include "models/tape.h"
#include "ops/conv/conv2d.h"
#include "ops/gemm/linear.h"
#include "ops/pool/max_pool2d.h"

namespace duet {

Fill default_init(int64_t terms);
std::string invalid_model(int64_t batch, DType dtype);  // why no model has this batch and dtype; "" where it may

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

// y = relu(conv(x, w) + bias); the sum overwrites the convolution's result. Parameters <name>.weight as conv2d's,
// <name>.bias (k).
class ConvLayer {
 public:
  ConvLayer(Tape& tape, const std::string& name, const Conv2d& shape);
  Var forward(Var x);
  Var backward(Var dy);              // dy is overwritten; returns dx
  void backward_parameters(Var dy);  // of a first layer, whose x needs no gradient

 private:
  Var before_relu(Var dy);  // the gradient before relu; adds the gradients of the parameters
  Tape* tape_;
  Conv2d shape_;
  Var w_, bias_, x_, y_;
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

// Loss scaling (arXiv:1710.03740), as PyTorch's GradScaler, for mixed precision in f16: gradients leave the range of
// f16 at both ends, while bf16 has the range of f32. The states are loss_scale, 65536 at first, and good_steps. A step
// whose gradients overflow leaves parameters and the optimiser's state as they are and halves the scale; 2000 good
// steps in a row double it. What the forward pass changes, such as running statistics and dropout's offset, changes in
// a bad step too. All of it happens on the device, so that the host never waits and a captured graph stays valid.
inline constexpr const char* kLossScale = "loss_scale";
bool scales_loss(DType dtype, bool mixed);  // true for mixed precision in f16

// Softmax cross-entropy of logits (rows, cols), the phase "loss". Outputs "logits" and "loss" of the tape. mixed: as in
// the optimiser's options; see scales_loss.
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

// add_optimiser() adds the phase "optimiser", over the whole arena. States: lr; velocity, or step, m and v; with mixed
// also master, the parameters in f32, whose rounded values the arena holds. Where the loss is scaled, the phase begins
// by bringing gradients back to f32, and ends by adapting the scale.
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
